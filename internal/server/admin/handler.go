package admin

import (
	"html"
	"net/http"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/server"
)

// CommandPathDefault is where the commands are, as with ZooKeeper (admin.commandURL).
const CommandPathDefault = "/commands"

// Options say what is shown besides the server itself.
type Options struct {
	// CommandPath is where the commands are. Default CommandPathDefault.
	CommandPath string
	// Configuration is the text of the file that the server was configured with, for the command
	// initial_configuration. Every request gets the whole text, so it must not hold passwords.
	Configuration string
}

type handler struct {
	s *server.Server
	o Options

	listing sync.Mutex // locked while a command that lists is answered: there is one such answer in memory
}

// Handler returns what answers about s. It goes on answering when s has ended, and says so.
func Handler(s *server.Server, o Options) http.Handler {
	path := "/" + strings.Trim(o.CommandPath, "/")
	if path == "/" {
		path = CommandPathDefault
	}
	h := &handler{s: s, o: o}
	mux := http.NewServeMux()
	list := func(w http.ResponseWriter, r *http.Request) { h.listCommands(w, path) }
	mux.HandleFunc("GET "+path, list)
	mux.HandleFunc("GET "+path+"/{$}", list)
	mux.HandleFunc("GET "+path+"/{name...}", h.command)
	mux.HandleFunc("POST "+path+"/{name...}", h.command)
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.MethodGet) })
	mux.HandleFunc("GET /metrics", h.metrics)
	mux.HandleFunc("GET /healthz", h.healthz)
	return http.NewCrossOriginProtection().Handler(mux)
}

func (h *handler) listCommands(w http.ResponseWriter, path string) {
	var b strings.Builder
	for i := range commands {
		name := commands[i].names[0]
		b.WriteString(`<a href="` + html.EscapeString(path+"/"+name) + `">` + name + "</a>\n<br/>\n")
	}
	write(w, http.StatusOK, "text/html; charset=utf-8", []byte(b.String()))
}

// command answers a command. One that changes something has to be a POST, so that no link and no image of a web page causes
// it, and a POST from a page of another origin does not get here. All others are a GET.
func (h *handler) command(w http.ResponseWriter, r *http.Request) {
	method := http.MethodGet
	c := byName[r.PathValue("name")]
	if c != nil && c.changes {
		method = http.MethodPost
	}
	if r.Method != method && (r.Method != http.MethodHead || method != http.MethodGet) {
		refuse(w, method)
		return
	}
	if c != nil && c.lists {
		h.listing.Lock() // until the client has taken the answer, which has a limit of time
		defer h.listing.Unlock()
	}
	write(w, http.StatusOK, "application/json", appendJSON(nil, h.answer(r.PathValue("name")), 0))
}

// refuse says which method a request should have had.
func refuse(w http.ResponseWriter, method string) {
	w.Header().Set("Allow", method)
	write(w, http.StatusMethodNotAllowed, "text/plain; charset=utf-8", []byte("use "+method+"\n"))
}

func (h *handler) metrics(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, metricsType, appendMetrics(nil, h.s.Metrics()))
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := h.s.Health(); err != nil {
		write(w, http.StatusServiceUnavailable, "text/plain; charset=utf-8", []byte(err.Error()+"\n"))
		return
	}
	write(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
}

// write sends an answer that is true only now, and that no browser is to take for anything else
// than it is.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	head := w.Header()
	head.Set("Content-Type", contentType)
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body) // an error means that the client has gone
}
