package access

import (
	"reflect"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
)

func TestParseCredential(t *testing.T) {
	digest := func(credential string) client.Auth {
		return client.Auth{Scheme: "digest", Credential: []byte(credential)}
	}
	for _, c := range []struct {
		line string
		want client.Auth
		bad  bool
	}{
		{"digest:alice:open:sesame\n", digest("alice:open:sesame"), false},
		{"digest:alice:secret", digest("alice:secret"), false},
		{"  digest:alice:secret \r\n", digest("alice:secret "), false},
		{"digest:al\xffice:\xfe\n", digest("al\xffice:\xfe"), false},
		{"digest:alice:\n", digest("alice:"), false},
		{"other:what it takes", client.Auth{Scheme: "other", Credential: []byte("what it takes")}, false},
		{"", client.Auth{}, false},
		{" \t\r\n", client.Auth{}, false},
		{" # digest:alice:secret\n", client.Auth{}, false},
		{"digest:alice\n", client.Auth{}, true},
		{"digest::secret\n", client.Auth{}, true},
		{"digest:\n", client.Auth{}, true},
		{":alice:secret\n", client.Auth{}, true},
		{"secret\n", client.Auth{}, true},
		{"my secret:is this\n", client.Auth{}, true},
		{"\ufeffdigest:alice:secret\n", client.Auth{}, true},
	} {
		got, err := parseCredential([]byte(c.line))
		if (err != nil) != c.bad || !reflect.DeepEqual(got, c.want) {
			t.Errorf("parseCredential(%q) = %q, %v; want %q, an error %v", c.line, got, err, c.want, c.bad)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("parseCredential(%q): the secret is in the error: %v", c.line, err)
		}
	}
}
