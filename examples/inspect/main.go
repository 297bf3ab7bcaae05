// Command inspect serves a page that shows the holders and the waiters of locks, and that changes as they do:
//
//	inspect ADDRESS DIRECTORY
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"age": func(t time.Time) time.Duration { return time.Since(t).Round(time.Second) },
}).Parse(pageText))

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: inspect ADDRESS DIRECTORY")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal("inspect: ", err)
	}
}

func serve(ctx context.Context, address, dir string) error {
	s, err := client.Open(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", l.Addr())
	v := viewer{s, dir}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", v.page)
	mux.HandleFunc("GET /changes", v.changes)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	s.Go(func(ctx context.Context) { // a session that has expired does not come back
		<-ctx.Done()
		srv.Close()
	})
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return s.Err() // nil if we were told to stop; else the supervisor starts us again
}

// A viewer shows the locks of a directory.
type viewer struct {
	s   *client.Session
	dir string
}

// page serves the page as it is now.
func (v viewer) page(w http.ResponseWriter, r *http.Request) {
	locks, err := inspect.LookAll(r.Context(), v.s, v.dir)
	if err != nil && !errors.Is(err, zk.ErrNoAuth) { // which is about locks that we may not read
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := page.Execute(w, map[string]any{"Dir": v.dir, "Locks": locks}); err != nil {
		log.Print("inspect: ", err)
	}
}

// changes sends the table again whenever it has changed, as server-sent events.
func (v viewer) changes(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for locks, err := range inspect.WatchAll(r.Context(), v.s, v.dir) {
		if err != nil && !errors.Is(err, zk.ErrNoAuth) {
			return // the browser connects again
		}
		var table bytes.Buffer
		if err := page.ExecuteTemplate(&table, "table", locks); err != nil {
			log.Print("inspect: ", err)
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", base64.StdEncoding.EncodeToString(table.Bytes()))
		http.NewResponseController(w).Flush()
	}
}
