package interop

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
	"github.com/lockkeeper/lockkeeper/test/interop/register"
)

// openRegister starts a register that fails the test if holders overlap or tokens shrink.
func openRegister(t *testing.T) *register.Register {
	t.Helper()
	r, err := register.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		for _, f := range r.Faults() {
			t.Error(f)
		}
	})
	return r
}

// names are the forms of the znodes with which the makes of lock clients stand in line.
var names = map[peer.Kind]*regexp.Regexp{
	peer.Lockkeeper:   regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-[0-9]{10}$`),
	peer.Curator:      regexp.MustCompile(`^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}$`),
	peer.GoZookeeper:  regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-[0-9]{10}$`),
	peer.Kazoo:        regexp.MustCompile(`^[0-9a-f]{32}__lock__[0-9]{10}$`),
	peer.KazooCurator: regexp.MustCompile(`^[0-9a-f]{32}-lock-[0-9]{10}$`),
}

func TestZnodeNamesOfThePeers(t *testing.T) {
	srv := apache.Start(t, apache.Options{})
	reg := openRegister(t)
	look := connect(t, srv.Addr(), watcherTimeout, nil)
	for kind, form := range names {
		path := "/names-" + string(kind)
		p := peer.Start(t, kind, peer.Config{Servers: srv.Addr(), Timeout: 2 * time.Second, Name: string(kind), Register: reg.Addr()})
		p.Lock(path)
		got := look.children(path)
		t.Logf("%s: %q", kind, got)
		if len(got) != 1 || !form.MatchString(got[0]) {
			t.Errorf("%s holds with %q, want one that matches %v", kind, got, form)
		}
		p.Unlock()
		p.Quit()
	}
}

// Who heeds whom: one holds, the other waits in line, or does not. Two makes that do not heed each
// other both ways may not share a lock, whatever we do.
func TestWhichPeersHeedWhom(t *testing.T) {
	srv := apache.Start(t, apache.Options{})
	all := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.GoZookeeper, peer.Kazoo, peer.KazooPatterns, peer.KazooCurator}
	curatorNames := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.GoZookeeper, peer.KazooCurator}
	kazooNames := []peer.Kind{peer.Kazoo, peer.KazooPatterns}
	heeded := map[peer.Kind][]peer.Kind{ // by waiter
		peer.Lockkeeper:    all,
		peer.Curator:       curatorNames,
		peer.GoZookeeper:   all,
		peer.Kazoo:         kazooNames,
		peer.KazooPatterns: all,
		peer.KazooCurator:  curatorNames,
	}
	for _, waiter := range all {
		for _, holder := range all {
			want := slices.Contains(heeded[waiter], holder)
			if got := heeds(t, srv, holder, waiter); got != want {
				t.Errorf("%s waits for %s: %v, want %v", waiter, holder, got, want)
			}
		}
	}
}

// heedWindow is how long a waiter must have been in line, without getting in, to be said to wait.
const heedWindow = 200 * time.Millisecond

func heeds(t *testing.T, srv *apache.Server, holder, waiter peer.Kind) bool {
	reg, err := register.Open() // whose judgement is what the test wants to know
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	path := "/heed-" + string(holder) + "-" + string(waiter)
	c := peer.Config{Servers: srv.Addr(), Timeout: 2 * time.Second, Register: reg.Addr()}
	c.Name = "holder"
	h := peer.Start(t, holder, c)
	defer h.Kill()
	c.Name = "waiter"
	w := peer.Start(t, waiter, c)
	defer w.Kill()
	h.Lock(path)
	w.Send("lock %s", path)
	look := connect(t, srv.Addr(), watcherTimeout, nil)
	for len(look.children(path)) < 2 {
		time.Sleep(5 * time.Millisecond)
	}
	deadline := time.After(heedWindow)
	for {
		names, changed := reg.Inside()
		if slices.Contains(names, "waiter") {
			w.ExpectHeld()
			return false
		}
		select {
		case <-changed:
			continue
		case <-deadline:
		}
		break
	}
	h.Unlock()
	w.ExpectHeld()
	return true
}
