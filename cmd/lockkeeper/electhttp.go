package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
	"github.com/lockkeeper/lockkeeper/internal/server/admin"
)

// An electionAnswer is what elect --http answers to GET /.
type electionAnswer struct {
	Election string  `json:"election"`
	Leading  bool    `json:"leading"`          // this candidate leads
	Leader   string  `json:"leader,omitempty"` // empty if it is not known at this moment
	Token    int64   `json:"token,omitempty"`  // of this candidate
	Seconds  float64 `json:"seconds,omitempty"`
}

// serveElection answers HTTP requests at addr from now on, until the process ends.
func serveElection(addr, path, self string, standing *front.Standing, told *roleLog) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return exit.Errorf(exit.Usage, "elect: --http %s: not host:port, such as 127.0.0.1:8090", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return exit.Errorf(exit.Usage, "elect: --http %s: %q is no port", addr, port)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return exit.Errorf(exit.OS, "elect: --http %s: %w", addr, err)
	}
	told.say(slog.LevelWarn, "elect: http://"+listener.Addr().String()+"/leader answers 200 while this candidate leads, and 503 otherwise")
	go func() { // ends with the process
		// Clients without end would take the descriptors with which this process starts and ends its command.
		err := admin.Serve(context.Background(), listener, electionHandler(path, self, standing))
		told.say(slog.LevelError, fmt.Sprintf("elect: --http %s: %v", addr, err))
	}()
	return nil
}

// electionHandler looks at the deadline of the leadership in each request.
func electionHandler(path, self string, standing *front.Standing) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		_, left := standing.Holds()
		if left <= 0 {
			http.Error(w, "this candidate does not lead", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "this candidate leads")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		token, left := standing.Holds()
		answer := electionAnswer{Election: path, Leading: left > 0, Leader: self, Token: token, Seconds: left.Seconds()}
		if !answer.Leading {
			answer.Leader = standing.Holder()
		}
		printJSON(w, answer) // the client that is gone needs no answer
	})
	return mux
}

// candidateName is what the HTTP answers call this candidate.
func candidateName(id, label string) string {
	if id != "" {
		return id
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	return fmt.Sprintf("%s (pid %d on %s)", label, os.Getpid(), host)
}
