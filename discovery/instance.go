package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Type says how an instance ends. The values are Curator's words.
type Type string

// The types. The zero value means Dynamic.
const (
	Dynamic           Type = "DYNAMIC"            // with the session
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // with the session; the name of the znode is numbered
	Static            Type = "STATIC"             // it stays until it is deleted
	Permanent         Type = "PERMANENT"          // the same
)

// An Instance is one instance of a service.
type Instance struct {
	Name    string
	ID      string
	Address string // host name or IP address; empty is null, which cannot be registered
	Port    int    // 0 is null
	SSLPort int    // 0 is null

	// Payload is JSON that belongs to the application; nil is null. Curator's readers expect an object with "@class"
	// first, or a string.
	Payload json.RawMessage

	Registered time.Time // to the millisecond
	Type       Type
	URISpec    []URIPart // nil is null

	// Disabled is written as "enabled":false. Instances that are enabled are written without the word, as Curator's
	// compatible mode does.
	Disabled bool
}

// A URIPart is a piece of the template that an instance's URI is made of.
type URIPart struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"` // Value is the name of a variable, such as "address"
}

// HTTPSpec is the template of scheme://address:port.
func HTTPSpec() []URIPart {
	return []URIPart{{"scheme", true}, {"://", false}, {"address", true}, {":", false}, {"port", true}}
}

// Encode returns the JSON of an instance, as Curator writes it.
func (i Instance) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(`{"name":`)
	writeString(&b, i.Name)
	b.WriteString(`,"id":`)
	writeString(&b, i.ID)
	b.WriteString(`,"address":`)
	if i.Address == "" {
		b.WriteString("null")
	} else {
		writeString(&b, i.Address)
	}
	writeNumber(&b, `,"port":`, i.Port)
	writeNumber(&b, `,"sslPort":`, i.SSLPort)
	b.WriteString(`,"payload":`)
	if i.Payload == nil {
		b.WriteString("null")
	} else {
		b.Write(i.Payload)
	}
	fmt.Fprintf(&b, `,"registrationTimeUTC":%d,"serviceType":"%s","uriSpec":`, i.Registered.UnixMilli(), cmp.Or(i.Type, Dynamic))
	writeSpec(&b, i.URISpec)
	if i.Disabled {
		b.WriteString(`,"enabled":false`)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func writeNumber(b *bytes.Buffer, name string, n int) {
	b.WriteString(name)
	if n == 0 {
		b.WriteString("null")
		return
	}
	b.WriteString(strconv.Itoa(n))
}

func writeSpec(b *bytes.Buffer, parts []URIPart) {
	if parts == nil {
		b.WriteString("null")
		return
	}
	b.WriteString(`{"parts":[`)
	for n, p := range parts {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"value":`)
		writeString(b, p.Value)
		fmt.Fprintf(b, `,"variable":%t}`, p.Variable)
	}
	b.WriteString("]}")
}

// writeString writes a JSON string with the escapes that Curator's writer (Jackson) has; encoding/json has others.
func writeString(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case strings.ContainsRune("\b\f\n\r\t", c):
			b.WriteByte('\\')
			b.WriteByte("btnvfr"[c-'\b'])
		case c < ' ':
			fmt.Fprintf(b, `\u%04X`, c)
		default:
			b.WriteRune(c) // what is not UTF-8 has become U+FFFD
		}
	}
	b.WriteByte('"')
}

// instanceJSON is the JSON of an instance.
type instanceJSON struct {
	Name       *string         `json:"name"`
	ID         *string         `json:"id"`
	Address    *string         `json:"address"`
	Port       *int            `json:"port"`
	SSLPort    *int            `json:"sslPort"`
	Payload    json.RawMessage `json:"payload"`
	Registered int64           `json:"registrationTimeUTC"`
	Type       *Type           `json:"serviceType"`
	URISpec    *struct {
		Parts []URIPart `json:"parts"`
	} `json:"uriSpec"`
	Enabled *bool `json:"enabled"`
}

// Decode reads the JSON of an instance. Missing and unknown fields are tolerated, as Curator's readers do; a name, an id
// and a known type are needed.
func Decode(data []byte) (Instance, error) {
	if !utf8.Valid(data) {
		return Instance{}, fmt.Errorf("%.60q is no UTF-8", data)
	}
	var s instanceJSON
	if err := json.Unmarshal(data, &s); err != nil {
		return Instance{}, fmt.Errorf("%.60q is no instance: %w", data, err)
	}
	i := Instance{Registered: time.UnixMilli(s.Registered).UTC(), Type: Dynamic}
	switch {
	case s.Name == nil || *s.Name == "":
		return i, fmt.Errorf("%.60q has no name", data)
	case s.ID == nil || *s.ID == "":
		return i, fmt.Errorf("%.60q has no id", data)
	}
	i.Name, i.ID = *s.Name, *s.ID
	if s.Type != nil {
		i.Type = *s.Type
	}
	switch i.Type {
	case Dynamic, DynamicSequential, Static, Permanent:
	default:
		return i, fmt.Errorf("serviceType %q is unknown", i.Type)
	}
	var err error
	if i.Port, err = port(s.Port); err != nil {
		return i, err
	}
	if i.SSLPort, err = port(s.SSLPort); err != nil {
		return i, err
	}
	if s.Address != nil {
		i.Address = *s.Address
	}
	if len(s.Payload) > 0 && string(s.Payload) != "null" {
		i.Payload = s.Payload
	}
	if s.URISpec != nil {
		i.URISpec = s.URISpec.Parts
		if i.URISpec == nil {
			i.URISpec = []URIPart{}
		}
	}
	i.Disabled = s.Enabled != nil && !*s.Enabled
	return i, nil
}

func port(p *int) (int, error) {
	if p == nil {
		return 0, nil
	}
	if *p < 0 || *p > 65535 {
		return 0, fmt.Errorf("port %d is out of range", *p)
	}
	return *p, nil
}

// HostPort returns "address:port", with the SSL port if the instance has no other. The error says that the instance has no
// address or no port, both of which Curator allows: such an instance cannot be dialled.
func (i Instance) HostPort() (string, error) {
	p := cmp.Or(i.Port, i.SSLPort)
	switch {
	case i.Address == "":
		return "", fmt.Errorf("instance %s of %s has no address", i.ID, i.Name)
	case p == 0:
		return "", fmt.Errorf("instance %s of %s has no port", i.ID, i.Name)
	}
	return net.JoinHostPort(i.Address, strconv.Itoa(p)), nil
}

// URI returns the instance's URI, by its template, into which values are put as they are. Without a template it is
// https://address:sslPort if the instance has an SSL port and http://address:port else, with an IPv6 address in brackets.
func (i Instance) URI() string {
	if len(i.URISpec) == 0 {
		return i.plainURI()
	}
	var b strings.Builder
	for _, p := range i.URISpec {
		if p.Variable {
			b.WriteString(i.variable(p.Value))
		} else {
			b.WriteString(p.Value)
		}
	}
	return b.String()
}

// plainURI returns the URI of an instance without a template.
func (i Instance) plainURI() string {
	host := i.Address
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p := cmp.Or(i.SSLPort, i.Port); p != 0 {
		host += ":" + strconv.Itoa(p)
	}
	return (&url.URL{Scheme: i.variable("scheme"), Host: host}).String()
}

// variable returns a variable of Curator's UriSpec; an unknown one is empty.
func (i Instance) variable(name string) string {
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	switch name {
	case "scheme":
		if i.SSLPort != 0 {
			return "https"
		}
		return "http"
	case "name":
		return i.Name
	case "id":
		return i.ID
	case "address":
		return i.Address
	case "port":
		return number(i.Port)
	case "ssl-port":
		return number(i.SSLPort)
	case "registration-time-utc":
		return strconv.FormatInt(i.Registered.UnixMilli(), 10)
	case "service-type":
		return strings.ToLower(string(i.Type))
	}
	return ""
}

// SpringMetadata returns the metadata that Spring Cloud Zookeeper has put into the payload; nil if there is none.
func SpringMetadata(i Instance) map[string]string {
	var payload struct {
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(i.Payload, &payload) != nil {
		return nil
	}
	return payload.Metadata
}
