package discovery_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/discovery"
)

// As written by Curator 5.4.0.
const golden = `{"name":"worker","id":"id-1","address":"10.0.0.1","port":8080,"sslPort":null,"payload":null,"registrationTimeUTC":1325129459728,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}`

func worker() discovery.Instance {
	return discovery.Instance{Name: "worker", ID: "id-1", Address: "10.0.0.1", Port: 8080, Registered: time.UnixMilli(1325129459728).UTC(),
		Type: discovery.Dynamic, URISpec: discovery.HTTPSpec()}
}

func TestBytesAreCurators(t *testing.T) {
	if got := string(worker().Encode()); got != golden {
		t.Errorf("encoded:\n%s\nwant\n%s", got, golden)
	}
	i, err := discovery.Decode([]byte(golden))
	if err != nil || !reflect.DeepEqual(i, worker()) {
		t.Errorf("decoded %+v, %v", i, err)
	}
	i = discovery.Instance{Name: "a\"\\\n\x1b</é\u2028", ID: "x", SSLPort: 1, Payload: json.RawMessage(`{"@class":"p.P","n":1}`), Type: discovery.Static, Registered: time.UnixMilli(5), Disabled: true}
	want := `{"name":"a\"\\\n\u001B</é` + "\u2028" + `","id":"x","address":null,"port":null,"sslPort":1,"payload":{"@class":"p.P","n":1},"registrationTimeUTC":5,"serviceType":"STATIC","uriSpec":null,"enabled":false}`
	if got := string(i.Encode()); got != want {
		t.Errorf("encoded:\n%s\nwant\n%s", got, want)
	}
	if plain, err := discovery.Decode(discovery.Instance{Name: "a", ID: "b", Address: "h"}.Encode()); err != nil || plain.Type != discovery.Dynamic {
		t.Errorf("an instance without a type is decoded as %q, %v", plain.Type, err)
	}
	back, err := discovery.Decode(i.Encode())
	if err != nil || back.Name != i.Name || !back.Disabled || string(back.Payload) != string(i.Payload) {
		t.Errorf("decoded %+v, %v", back, err)
	}
}

func TestDecodeToleratesWhatCuratorDoes(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"n","id":"i"}`: "", `{"name":"n","id":"i","new":[1],"enabled":null,"uriSpec":{},"payload":"text"}`: "",
		``: "no instance", `{`: "no instance", `[]`: "no instance", `{"id":"i"}`: "no name", `{"name":"n"}`: "no id",
		`{"name":"n","id":"i","serviceType":"ODD"}`: `serviceType "ODD"`, `{"name":"n","id":"i","port":70000}`: "port 70000",
		`{"name":"n","id":"i","sslPort":-1}`: "port -1", `{"name":"n","id":"i","port":"x"}`: "no instance", "{\"name\":\"\xff\",\"id\":\"i\"}": "UTF-8",
	} {
		i, err := discovery.Decode([]byte(text))
		if want == "" {
			if err != nil || i.Name != "n" || i.ID != "i" || i.Disabled || i.Type != discovery.Dynamic {
				t.Errorf("%s: %+v, %v", text, i, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestURI(t *testing.T) {
	i := worker()
	all := []discovery.URIPart{}
	for _, name := range []string{"scheme", "name", "id", "address", "port", "ssl-port", "registration-time-utc", "service-type", "odd"} {
		all = append(all, discovery.URIPart{Value: name, Variable: true}, discovery.URIPart{Value: " "})
	}
	for want, change := range map[string]func(*discovery.Instance){
		"http://10.0.0.1:8080":         func(*discovery.Instance) {},
		"https://10.0.0.1:444":         func(i *discovery.Instance) { i.Port, i.SSLPort = 443, 444; i.URISpec = nil },
		"http://[::1]:8080":            func(i *discovery.Instance) { i.Address, i.URISpec = "::1", nil },
		"http://[fe80::1%25eth0]:8080": func(i *discovery.Instance) { i.Address, i.URISpec = "fe80::1%eth0", nil },
		"https://[::1]:444":            func(i *discovery.Instance) { i.Address, i.Port, i.SSLPort, i.URISpec = "::1", 0, 444, nil },
		"http://h":                     func(i *discovery.Instance) { i.Address, i.Port, i.URISpec = "h", 0, nil },
		"http://::1:8080":              func(i *discovery.Instance) { i.Address = "::1" }, // as Curator has it by this template
		"http worker id-1 10.0.0.1 8080  1325129459728 dynamic  ": func(i *discovery.Instance) { i.URISpec = all },
	} {
		j := i
		change(&j)
		if got := j.URI(); got != want {
			t.Errorf("URI %q, want %q", got, want)
		}
	}
}

func TestSpringMetadata(t *testing.T) {
	i := worker()
	i.Payload = json.RawMessage(`{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"a-1","name":"a","metadata":{"instance_status":"UP"}}`)
	if got := discovery.SpringMetadata(i); got["instance_status"] != "UP" {
		t.Errorf("metadata %v", got)
	}
	i.Payload = json.RawMessage(`"text"`)
	if got := discovery.SpringMetadata(i); got != nil {
		t.Errorf("metadata of a string: %v", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(golden))
	f.Add([]byte(`{"name":"n","id":"i","payload":{"a":1},"enabled":false}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := discovery.Decode(data)
		if err != nil {
			return
		}
		j, err := discovery.Decode(i.Encode())
		if err != nil || string(i.Encode()) != string(j.Encode()) {
			t.Errorf("%q becomes %q, %v", i.Encode(), j.Encode(), err)
		}
	})
}
