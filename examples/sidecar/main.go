// Command sidecar (sidecar TEMPLATE FILE COMMAND…) renders a configuration file from a znode with YAML, beside a program
// that knows nothing of ZooKeeper, and runs a command that makes the program read the file again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/config"
)

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: sidecar TEMPLATE FILE COMMAND…")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tmpl, err := template.ParseFiles(os.Args[1])
	if err != nil {
		log.Fatal("sidecar: ", err)
	}
	tmpl.Option("missingkey=error")
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		log.Fatal("sidecar: ", err)
	}
	defer k.Close(context.Background())
	values, err := config.Open(ctx, k, []string{"/examples/sidecar"}, config.Options[map[string]any]{
		Logger:   slog.Default(), // says why a value does not come into force
		Decode:   func(data []byte, v *map[string]any) error { return yaml.Unmarshal(data, v) },
		Validate: func(v map[string]any) error { return tmpl.Execute(io.Discard, v) },
	})
	if err != nil {
		log.Fatal("sidecar: ", err)
	}
	var rendered int64 // zxid of the change
	for state, err := range values.Changes(ctx) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Fatal("sidecar: ", err)
		}
		source := state.Sources[0].Stat
		if source.Mzxid == rendered {
			continue // the connection was lost or is back, or new data were refused
		}
		rendered = source.Mzxid
		reload := exec.Command(os.Args[3], os.Args[4:]...)
		fmt.Println("rendered version", source.Version, errors.Join(render(tmpl, state.Value, os.Args[2]), reload.Run()))
	}
}

// render replaces the file as a whole.
func render(tmpl *template.Template, values map[string]any, file string) error {
	f, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tmpl.Execute(f, values); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
