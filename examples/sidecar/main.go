// Command sidecar (sidecar TEMPLATE FILE COMMAND…) renders a configuration file from a znode, beside a program that knows
// nothing of ZooKeeper, and runs a command that makes the program read the file again.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/template"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tmpl := template.Must(template.ParseFiles(os.Args[1])).Option("missingkey=error")
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		log.Fatal("sidecar: ", err)
	}
	defer k.Close(context.Background())
	// What cannot be rendered does not come into force.
	opt := config.Options[map[string]any]{Logger: slog.Default(), Validate: func(v map[string]any) error { return render(tmpl, v, os.Args[2]) }}
	values, err := config.Open(ctx, k, []string{"/examples/sidecar"}, opt)
	if err != nil {
		log.Fatal("sidecar: ", err)
	}
	for state, err := range values.Changes(ctx) {
		if err != nil || state.Bad != nil { // the end; or the file stays as it is, and the logger has said why
			continue
		}
		fmt.Println("rendered version", state.Sources[0].Stat.Version)
		if out, err := exec.Command(os.Args[3], os.Args[4:]...).CombinedOutput(); err != nil {
			log.Printf("sidecar: %v\n%s", err, out)
		}
	}
}

// render writes the file anew, or leaves it as it is.
func render(tmpl *template.Template, values map[string]any, file string) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".sidecar-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it has been renamed
	if err := tmpl.Execute(f, values); err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Rename(f.Name(), file))
}
