package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
)

const (
	adminTimeout   = 3 * time.Second // for all that is asked of an admin port
	adminBytesMax  = 1 << 20         // of an answer
	monitorPrefix  = "zk_"
	monitorCommand = "monitor"
)

// An adminPort asks the commands of one server.
type adminPort struct {
	url    string
	client *http.Client
	remote bool
}

// askAdmin asks the admin port for what the server's words have not told, and for the properties of its JVM.
func (n *Network) askAdmin(ctx context.Context, s *doctor.Server, port string) {
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return
	}
	ctx, done := limited(ctx, adminTimeout)
	defer done()
	a := &adminPort{url: "http://" + net.JoinHostPort(host, port)}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := n.DialAdmin(ctx, network, address)
		if err == nil {
			at, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			ip := net.ParseIP(at)
			a.remote = ip != nil && !ip.IsLoopback()
		}
		return c, err
	}}
	defer transport.CloseIdleConnections()
	a.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.Admin.URL = a.url
	monitor, err := a.command(ctx, monitorCommand)
	if errors.Is(err, fourletter.ErrNotServing) {
		s.Admin.Remote = a.remote
		return
	}
	var config map[string]json.RawMessage
	if err == nil {
		config, err = a.command(ctx, "configuration")
	}
	if err == nil {
		err = isOf(s.Address, config)
	}
	if err != nil {
		s.Admin.Err = err
		return
	}
	s.Admin.Remote = a.remote
	if s.Monitor == nil {
		s.Monitor = flat(monitorPrefix, monitor)
	}
	a.status(ctx, s)
	if s.Config == nil {
		a.configuration(ctx, s, config)
	}
	if properties, err := a.command(ctx, "system_properties"); err == nil {
		s.Properties = flat("", properties)
	}
}

// command asks for a command. An answer that is not that of an admin port is an error.
func (a *adminPort) command(ctx context.Context, name string) (map[string]json.RawMessage, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/commands/"+name, nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.client.Do(r)
	var outer *url.Error
	if errors.As(err, &outer) { // which repeats the address
		err = outer.Err
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, adminBytesMax))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.url, err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields["command"] == nil {
		return nil, fmt.Errorf("%s: %s, and no answer of ZooKeeper's", a.url, answer.Status)
	}
	var refused string
	if json.Unmarshal(fields["error"], &refused) == nil && refused != "" {
		if strings.Contains(refused, fourletter.ErrNotServing.Error()) {
			return nil, fourletter.ErrNotServing
		}
		return nil, fmt.Errorf("%s: %s: %.100q", a.url, name, refused)
	}
	return fields, nil
}

// status fills in the status of a server that refuses srvr.
func (a *adminPort) status(ctx context.Context, s *doctor.Server) {
	if !errors.Is(s.Err, fourletter.ErrRefused) {
		return
	}
	fields, err := a.command(ctx, "server_stats")
	if err != nil {
		s.Err = err
		return
	}
	stats, err := nested(fields["server_stats"])
	if err != nil {
		return
	}
	top, values := flat("", fields), flat("", stats)
	integer := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	float := func(text string) float64 {
		n, _ := strconv.ParseFloat(text, 64)
		return n
	}
	version, _, _ := strings.Cut(top["version"], ",")
	s.Err, s.Status = nil, &fourletter.Status{
		Version: version, Mode: values["server_state"],
		LatencyMin: float(values["min_latency"]), LatencyAvg: float(values["avg_latency"]), LatencyMax: float(values["max_latency"]),
		Connections: int(integer(values["num_alive_client_connections"])), Outstanding: int(integer(values["outstanding_requests"])),
		Znodes: int(integer(top["node_count"])), Zxid: "0x" + strconv.FormatUint(uint64(integer(values["last_processed_zxid"])), 16),
		Received: integer(values["packets_received"]),
	}
}

// isOf returns an error if a configuration is that of another server, as on a machine with several of them.
func isOf(address string, config map[string]json.RawMessage) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	for _, key := range []string{"client_port", "secure_client_port"} {
		if string(config[key]) == port {
			return nil
		}
	}
	return fmt.Errorf("it is of the server with client port %s", config["client_port"])
}

// configuration fills in what conf would have told, as far as the admin port tells it: without initLimit, and with the
// members that vote alone.
func (a *adminPort) configuration(ctx context.Context, s *doctor.Server, config map[string]json.RawMessage) {
	s.Config, s.VotersOnly = map[string]string{}, true
	for name, value := range flat("", config) {
		s.Config[camel(name)] = value
	}
	view, err := a.command(ctx, "voting_view")
	if err != nil {
		return
	}
	members, err := nested(view["current_config"])
	if err != nil {
		return
	}
	for id, text := range members {
		if line := memberLine(text); line != "" {
			s.Config["server."+id] = line
		}
	}
}

// memberLine returns what stands behind server.N= for a member of voting_view: a text, or, in later versions, an object.
// It is empty if the text is neither.
func memberLine(text json.RawMessage) (line string) {
	if json.Unmarshal(text, &line) == nil {
		return line
	}
	var m struct {
		Server   []string `json:"server_addresses"`
		Election []string `json:"election_addresses"`
		Client   string   `json:"client_address"`
	}
	err := json.Unmarshal(text, &m)
	if err != nil {
		return ""
	}
	var places []string
	for i := range min(len(m.Server), len(m.Election)) {
		places = append(places, m.Server[i]+portOf(m.Election[i]))
	}
	line = strings.Join(places, "|")
	if m.Client != "" {
		line += ";" + m.Client
	}
	return line
}

// portOf returns the end of an address, from the last colon on.
func portOf(address string) string {
	if i := strings.LastIndex(address, ":"); i >= 0 {
		return address[i:]
	}
	return ""
}

// nested reads an object.
func nested(text json.RawMessage) (fields map[string]json.RawMessage, err error) {
	return fields, json.Unmarshal(text, &fields)
}

// flat returns the fields that are texts, numbers and truths, as text.
func flat(prefix string, fields map[string]json.RawMessage) map[string]string {
	all := map[string]string{}
	for name, value := range fields {
		var text string
		switch {
		case json.Unmarshal(value, &text) == nil && string(value) != "null":
			all[prefix+name] = text
		case !strings.ContainsAny(string(value), "{[") && string(value) != "null":
			all[prefix+name] = string(value)
		}
	}
	return all
}

// camel makes aName of a_name.
func camel(name string) string {
	first, rest, _ := strings.Cut(name, "_")
	for word := range strings.SplitSeq(rest, "_") {
		if word != "" {
			first += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return first
}
