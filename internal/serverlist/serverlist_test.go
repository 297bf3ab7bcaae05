package serverlist

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		list    string
		servers string // as printed, with the host that a certificate must name
		chroot  string
		fails   string
	}{
		{list: "zk", servers: "zk:2181=zk"},
		{list: "zk:1", servers: "zk:1=zk"},
		{list: " a:1 , b ,c:3", servers: "a:1=a b:2181=b c:3=c"},
		{list: "a:1,b:2/app", servers: "a:1=a b:2=b", chroot: "/app"},
		{list: "a/app/x/", servers: "a:2181=a", chroot: "/app/x"},
		{list: "a/", servers: "a:2181=a"},
		{list: "a//", fails: `chroot: znode path "//" has an empty name`},
		{list: "[::1]:5", servers: "[::1]:5=::1"},
		{list: "[::1]", servers: "[::1]:2181=::1"},
		{list: "10.0.0.1:65535", servers: "10.0.0.1:65535=10.0.0.1"},
		{list: "unix:/run/zk.sock", servers: "unix:/run/zk.sock="},
		{list: "unix:/run/zk.sock,a", servers: "unix:/run/zk.sock= a:2181=a"},
		{list: "", fails: "it is empty"},
		{list: "/var/run/zk.sock", fails: "unix:/path"},
		{list: "a,,b", fails: "has no host"},
		{list: ":2181", fails: "has no host"},
		{list: "a:0", fails: "not a number from 1 to 65535"},
		{list: "a:65536", fails: "not a number from 1 to 65535"},
		{list: "a:x", fails: "not a number from 1 to 65535"},
		{list: "::1", fails: "stands in brackets"},
		{list: "a/app,b", fails: "only follow the last server"},
		{list: "a//b", fails: "empty component"},
		{list: "a/..", fails: "relative component"},
		{list: "a b:1", fails: "blank in the host"},
		{list: "a:1 b:2", fails: "stands in brackets"},
		{list: "a b", fails: "blank in the host"},
		{list: "unix:", fails: "without a path"},
		{list: "http://x", fails: "a server is host:port, without http:// (a list is host:port,host:port/chroot, not a URL)"},
		{list: "a:1,zk://b:2/app", fails: "without zk://"},
	} {
		servers, chroot, err := Parse(tt.list)
		var got []string
		for _, s := range servers {
			got = append(got, s.String()+"="+s.Host)
		}
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("Parse(%q): %v, want an error that says %q", tt.list, err, tt.fails)
			}
			if got := Check(tt.list); got == nil || got.Error() != err.Error() {
				t.Errorf("Check(%q) = %v, want %v", tt.list, got, err)
			}
			continue
		}
		if s := strings.Join(got, " "); s != tt.servers || chroot != tt.chroot || err != nil {
			t.Errorf("Parse(%q) = %q, %q, %v, want %q, %q", tt.list, s, chroot, err, tt.servers, tt.chroot)
		}
	}
}
