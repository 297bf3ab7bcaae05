package counter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/counter"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keep(t *testing.T, srv *zktest.Server, label string) (*client.Keeper, *faultproxy.Proxy) {
	t.Helper()
	p := faultproxy.New(srv.Link(label).Dial)
	t.Cleanup(p.Close)
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: p.Dial})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return k, p
}

func open(t *testing.T, k *client.Keeper, opt counter.Options) *counter.Counter {
	t.Helper()
	c, err := counter.New(k, "/c/n", opt)
	must(t, err)
	return c
}

func TestFormats(t *testing.T) {
	for _, f := range []struct {
		opt   counter.Options
		bytes string // of 258
		min   string // of the smallest value that is tried, -2
	}{
		{counter.Options{}, "\x00\x00\x00\x00\x00\x00\x01\x02", "\xff\xff\xff\xff\xff\xff\xff\xfe"},
		{counter.Options{Format: counter.Int32}, "\x00\x00\x01\x02", "\xff\xff\xff\xfe"},
		{counter.Options{Format: counter.Decimal}, "258", "-2"},
	} {
		for _, exact := range []bool{false, true} {
			f.opt.Exact = exact
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, _ := keep(t, srv, "a")
				c := open(t, k, f.opt)
				v, err := c.Get(t.Context())
				if err != nil || v.Number != 0 || v.Stat != (zk.Stat{}) {
					t.Errorf("%v: a counter that is not there: %+v, %v", f.opt.Format, v, err)
				}
				v, err = c.Add(t.Context(), 258)
				if data := string(srv.Tree("/c/n")[0].Data); err != nil || v.Number != 258 || data != f.bytes {
					t.Errorf("%v: 258 is %q, %v, %v", f.opt.Format, data, v.Number, err)
				}
				v, err = c.Set(t.Context(), -2)
				if data := string(srv.Tree("/c/n")[0].Data); err != nil || v.Number != -2 || data != f.min {
					t.Errorf("%v: -2 is %q, %v", f.opt.Format, data, err)
				}
				if v, ok, err := c.CompareAndSet(t.Context(), 7, 8); ok || err != nil || v.Number != -2 {
					t.Errorf("%v: CompareAndSet with another value: %+v, %v, %v", f.opt.Format, v, ok, err)
				}
				if v, ok, err := c.CompareAndSet(t.Context(), -2, 8); !ok || err != nil || v.Number != 8 {
					t.Errorf("%v: CompareAndSet: %+v, %v, %v", f.opt.Format, v, ok, err)
				}
				if v, err := c.Get(t.Context()); err != nil || v.Number != 8 {
					t.Errorf("%v: Get: %+v, %v", f.opt.Format, v, err)
				}
			})
		}
	}
}

func TestWhatIsNoNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		s := srv.Session(t, "s")
		for _, c := range []struct {
			format counter.Format
			data   string
		}{{counter.Int64, "12345"}, {counter.Int32, "12345"}, {counter.Decimal, "1.5"}, {counter.Decimal, "\x00\x00\x00\x01"}} {
			_, err := s.Put(t.Context(), "/c/n", []byte(c.data), nil)
			must(t, err)
			n := open(t, k, counter.Options{Format: c.format})
			_, err = n.Add(t.Context(), 1)
			var bad *counter.FormatError
			if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "add /c/n: ") || client.MaybeApplied(err) {
				t.Errorf("%v of %q: %v", c.format, c.data, err)
			}
			if string(srv.Tree("/c/n")[0].Data) != c.data {
				t.Errorf("%v of %q: the znode was changed", c.format, c.data)
			}
		}
		_, err := s.Put(t.Context(), "/c/n", nil, nil)
		must(t, err)
		if v, err := open(t, k, counter.Options{Initial: 5}).Add(t.Context(), 1); err != nil || v.Number != 6 {
			t.Errorf("an empty znode: %v, %v", v.Number, err)
		}
		for _, opt := range []counter.Options{{Format: 7}, {Format: counter.Int32, Initial: math.MaxInt32 + 1}} {
			if _, err := counter.New(k, "/c/n", opt); err == nil {
				t.Errorf("%+v was accepted", opt)
			}
		}
		for _, path := range []string{"c", "/", "/c/"} {
			if _, err := counter.New(k, path, counter.Options{}); !errors.Is(err, zk.ErrBadArguments) {
				t.Errorf("path %q: %v", path, err)
			}
		}
	})
}

func TestOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		for _, c := range []struct {
			format counter.Format
			from   int64
			delta  int64
		}{{counter.Int64, math.MaxInt64, 1}, {counter.Int64, math.MinInt64, -1}, {counter.Int32, math.MaxInt32, 1}, {counter.Int32, math.MinInt32, -1}, {counter.Decimal, math.MaxInt64, 1}} {
			n := open(t, k, counter.Options{Format: c.format})
			must(t, srv.Session(t, "s").DeleteAll(t.Context(), "/c"))
			_, err := n.Set(t.Context(), c.from)
			must(t, err)
			var over *counter.OverflowError
			if v, err := n.Add(t.Context(), c.delta); !errors.As(err, &over) {
				t.Errorf("%v: %d plus %d: %v, %v", c.format, c.from, c.delta, v.Number, err)
			}
			if v, err := n.Add(t.Context(), 0); err != nil || v.Number != c.from {
				t.Errorf("%v: afterwards %v, %v", c.format, v.Number, err)
			}
		}
		if _, err := open(t, k, counter.Options{Format: counter.Int32}).Set(t.Context(), math.MaxInt32+1); err == nil {
			t.Error("set beyond 32 bits")
		}
	})
}

// Each request is lost in turn, before or after the server has carried it out, while another client counts as well: the
// sum is what the outcomes say. With Exact, every outcome is known.
func TestNeverDoubled(t *testing.T) {
	for _, exact := range []bool{false, true} {
		for i := range 20 {
			t.Run(fmt.Sprintf("exact %v, request %d lost %s", exact, i/2, []string{"before", "after"}[i%2]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.New(t, zktest.Options{})
					k, p := keep(t, srv, "a")
					kb, _ := keep(t, srv, "b")
					a, b := open(t, k, counter.Options{Exact: exact}), open(t, kb, counter.Options{Exact: exact})
					m := faultproxy.Match{Ops: []wire.Op{wire.OpCreate2, wire.OpSetData, wire.OpMulti, wire.OpGetData, wire.OpSync, wire.OpExists}, Skip: i / 2}
					p.After(m, func(faultproxy.Request, faultproxy.Reply) {
						_, err := b.Add(context.Background(), 100)
						must(t, err)
					})
					if i%2 == 0 {
						p.CutBefore(m)
					} else {
						p.CutAfter(m)
					}
					sure, unsure := int64(0), int64(0)
					for range 3 {
						_, err := a.Add(t.Context(), 1)
						switch {
						case err == nil:
							sure++
						case client.MaybeApplied(err) && !exact:
							unsure++
						default:
							t.Errorf("Add: %v", err)
						}
					}
					v, err := a.Get(t.Context())
					must(t, err)
					if n := v.Number % 100; n < sure || n > sure+unsure {
						t.Errorf("the counter has %d, with %d changes made and %d unknown", v.Number, sure, unsure)
					}
				})
			})
		}
	}
}

// Counters on one path and one session share a journal, also those that are made for one change each. Answers of two of them are
// lost at once: the outcome of both changes is known. After the session, nothing is left.
func TestCountersOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		opt := counter.Options{Exact: true}
		for want := int64(1); want <= 10; want++ {
			if v, err := open(t, k, opt).Add(t.Context(), 1); err != nil || v.Number != want {
				t.Errorf("%v, %v, want %d", v.Number, err, want)
			}
		}
		m := faultproxy.Match{Ops: []wire.Op{wire.OpMulti}}
		p.CutAfter(m)
		m.Skip = 1
		p.CutBefore(m)
		errs := make(chan error)
		for range 2 {
			c := open(t, k, opt)
			go func() {
				_, err := c.Add(context.Background(), 1)
				errs <- err
			}()
		}
		must(t, errors.Join(<-errs, <-errs))
		if v, err := open(t, k, opt).Get(t.Context()); err != nil || v.Number != 12 {
			t.Errorf("the counter has %d, %v, want 12", v.Number, err)
		}
		if n := len(srv.Tree("/c/n")) - 1; n != 1 {
			t.Errorf("%d journals", n)
		}
		must(t, k.Close(t.Context()))
		if n := len(srv.Tree("/c/n")) - 1; n != 0 {
			t.Errorf("%d journals are left", n)
		}
	})
}

// The counter is made anew, with the journal of another session first. Then answers of both are lost: what is one's own is not
// taken for the other's.
func TestJournalsOfACounterThatIsMadeAnew(t *testing.T) {
	for i := range 8 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			ka, pa := keep(t, srv, "a")
			kb, pb := keep(t, srv, "b")
			a, b := open(t, ka, counter.Options{Exact: true}), open(t, kb, counter.Options{Exact: true})
			_, err := a.Add(t.Context(), 1)
			must(t, err)
			must(t, srv.Session(t, "s").DeleteAll(t.Context(), "/c"))
			_, err = b.Add(t.Context(), 1)
			must(t, err)
			m := faultproxy.Match{Ops: []wire.Op{wire.OpMulti}}
			for bit, p := range []*faultproxy.Proxy{pa, pb} {
				p.Before(m, func(faultproxy.Request) { time.Sleep(time.Second) }) // until both are sent
				if i>>bit&1 == 0 {
					p.CutBefore(m)
				} else {
					p.CutAfter(m)
				}
			}
			order := []*counter.Counter{a, b}
			if i >= 4 {
				order = []*counter.Counter{b, a}
			}
			errs := make(chan error)
			for n, c := range order {
				go func() {
					time.Sleep(time.Duration(n) * time.Millisecond)
					_, err := c.Add(context.Background(), 1)
					errs <- err
				}()
			}
			sure, unsure := int64(0), int64(0)
			for range order {
				switch err := <-errs; {
				case err == nil:
					sure++
				case client.MaybeApplied(err):
					unsure++
				default:
					t.Errorf("case %d: %v", i, err)
				}
			}
			if v, err := a.Get(t.Context()); err != nil || v.Number < 1+sure || v.Number > 1+sure+unsure {
				t.Errorf("case %d: the counter has %d, %v; it had 1, with %d changes made and %d unknown", i, v.Number, err, sure, unsure)
			}
		})
	}
}

// A session has one journal, however often its creation was given up without an answer.
func TestAJournalWhoseCreationIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		c := open(t, k, counter.Options{Exact: true})
		held := p.Hold(faultproxy.Match{Ops: faultproxy.Creates(), Prefix: "/c/n/_", Times: faultproxy.Always}, time.Second)
		made := int64(0)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			_, err := c.Add(ctx, 1)
			cancel()
			switch {
			case err == nil:
				made++
			case !errors.Is(err, context.DeadlineExceeded) || client.MaybeApplied(err):
				t.Errorf("Add: %v", err)
			}
			time.Sleep(time.Second)
		}
		held.Remove()
		if v, err := c.Add(t.Context(), 1); err != nil || v.Number != made+1 {
			t.Errorf("the counter has %d, %v, with %d changes made", v.Number, err, made+1)
		}
		if n := len(srv.Tree("/c/n")) - 1; n != 1 {
			t.Errorf("%d journals", n)
		}
	})
}

// A change that was not sent is not in doubt, however the requests before it have ended.
func TestNotSent(t *testing.T) {
	counterMade := faultproxy.Match{Ops: faultproxy.Creates(), Path: "/c/n"}
	journalMade := faultproxy.Match{Ops: faultproxy.Creates(), Prefix: "/c/n/_"}
	for _, c := range []struct {
		name  string
		exact bool
		fault func(*faultproxy.Proxy)
	}{
		{"the counter is made", false, func(p *faultproxy.Proxy) { p.Hold(counterMade, time.Hour) }},
		{"the counter is made, exact", true, func(p *faultproxy.Proxy) { p.Hold(counterMade, time.Hour) }},
		{"the journal is made", true, func(p *faultproxy.Proxy) { p.Hold(journalMade, time.Hour) }},
		{"the journal is looked for", true, func(p *faultproxy.Proxy) {
			p.CutAfter(journalMade)
			p.Hold(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Prefix: "/c/n/_"}, time.Hour)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, p := keep(t, srv, "a")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				c.fault(p)
				n := open(t, k, counter.Options{Exact: c.exact})
				if _, err := n.Add(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || client.MaybeApplied(err) {
					t.Errorf("got %v, want the end of the context and a known outcome", err)
				}
			})
		})
	}
}

// An expiry at every request: nothing is doubled, and the counter goes on with the next session, in the same call unless it is
// unknown whether the change was made.
func TestExpiryAtEveryPhase(t *testing.T) {
	for _, exact := range []bool{false, true} {
		for i := range 16 {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, p := keep(t, srv, "a")
				a := open(t, k, counter.Options{Exact: exact})
				m := faultproxy.Match{Ops: []wire.Op{wire.OpCreate2, wire.OpSetData, wire.OpMulti, wire.OpGetData, wire.OpExists}, Skip: i / 2}
				expire := func() { srv.Link("a").Expire() }
				if i%2 == 0 {
					p.Before(m, func(faultproxy.Request) { expire() })
				} else {
					p.After(m, func(faultproxy.Request, faultproxy.Reply) { expire() })
					p.CutAfter(m)
				}
				sure, unsure := int64(0), int64(0)
				for range 4 {
					_, err := a.Add(t.Context(), 1)
					switch {
					case err == nil:
						sure++
					case client.MaybeApplied(err):
						unsure++
					default: // what was not made is made under the next session
						t.Errorf("Add: %v", err)
					}
				}
				v, err := a.Get(t.Context())
				must(t, err)
				if v.Number < sure || v.Number > sure+unsure || sure < 3 {
					t.Errorf("exact %v, request %d: the counter has %d, with %d changes made and %d unknown", exact, i, v.Number, sure, unsure)
				}
			})
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	for _, exact := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			errs := make(chan error)
			for i := range 4 {
				k, _ := keep(t, srv, fmt.Sprint("k", i))
				c := open(t, k, counter.Options{Exact: exact})
				for range 5 {
					go func() {
						_, err := c.Add(context.Background(), 1)
						errs <- err
					}()
				}
			}
			for range 20 {
				must(t, <-errs)
			}
			k, _ := keep(t, srv, "last")
			if v, err := open(t, k, counter.Options{}).Get(t.Context()); err != nil || v.Number != 20 {
				t.Errorf("exact %v: %v, %v; want 20", exact, v.Number, err)
			}
			if n := len(srv.Tree("/c/n")); exact && n != 5 || !exact && n != 1 {
				t.Errorf("exact %v: %d znodes", exact, n)
			}
		})
	}
}

// The journal is another client's to delete, and so is the counter.
func TestExactAndWhatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		s := srv.Session(t, "s")
		c := open(t, k, counter.Options{Exact: true})
		for want := int64(1); want <= 3; want++ {
			if v, err := c.Add(t.Context(), 1); err != nil || v.Number != want {
				t.Errorf("%v, %v, want %d", v.Number, err, want)
			}
			for _, n := range srv.Tree("/c/n")[1:] {
				must(t, s.Delete(t.Context(), n.Path, zk.AnyVersion))
			}
		}
		must(t, s.DeleteAll(t.Context(), "/c"))
		if v, err := c.Add(t.Context(), 1); err != nil || v.Number != 1 {
			t.Errorf("after the counter was deleted: %v, %v", v.Number, err)
		}
	})
}

// A counter that is deleted while it is changed begins again.
func TestDeletedMeanwhile(t *testing.T) {
	for _, exact := range []bool{false, true} {
		for _, op := range []wire.Op{wire.OpGetData, wire.OpSetData, wire.OpMulti} { // before which it is deleted
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, p := keep(t, srv, "a")
				s := srv.Session(t, "s")
				c := open(t, k, counter.Options{Exact: exact, Initial: 5})
				_, err := c.Add(t.Context(), 100)
				must(t, err)
				deleted := false
				p.Before(faultproxy.Match{Ops: []wire.Op{op}, Path: "/c/n"}, func(faultproxy.Request) {
					deleted = true
					if err := s.DeleteAll(context.Background(), "/c"); err != nil {
						t.Error(err)
					}
				})
				want := int64(6)
				v, err := c.Add(t.Context(), 1)
				if !deleted {
					want = 106
				}
				if err != nil || v.Number != want {
					t.Errorf("exact %v, deleted %v before %v: %v, %v, want %d", exact, deleted, op, v.Number, err, want)
				}
			})
		}
	}
}

// Update writes what the function makes of the value, and nothing if that fails.
func TestUpdate(t *testing.T) {
	for _, exact := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k, _ := keep(t, zktest.New(t, zktest.Options{}), "a")
			c := open(t, k, counter.Options{Format: counter.Int32, Exact: exact, Initial: 5})
			v, err := c.Update(t.Context(), func(old int64) (int64, error) { return old * 3, nil })
			if err != nil || v.Number != 15 {
				t.Errorf("got %d, %v, want 15", v.Number, err)
			}
			refused := errors.New("refused")
			if _, err := c.Update(t.Context(), func(int64) (int64, error) { return 0, refused }); !errors.Is(err, refused) || client.MaybeApplied(err) {
				t.Errorf("got %v, want the function's error", err)
			}
			var overflow *counter.OverflowError
			if _, err := c.Update(t.Context(), func(int64) (int64, error) { return math.MaxInt32 + 1, nil }); !errors.As(err, &overflow) {
				t.Errorf("got %v, want an OverflowError", err)
			}
			v, err = c.Get(t.Context())
			if err != nil || v.Number != 15 {
				t.Errorf("got %d, %v, want 15", v.Number, err)
			}
		})
	}
}

// What was read first is old by the time that the change is decided: nothing is refused for that, and what is returned is the
// value that was compared.
func TestNothingIsRefusedForAnOldValue(t *testing.T) {
	for _, exact := range []bool{false, true} {
		for _, behind := range []bool{true, false} { // or what was read first is the newest
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, p := keep(t, srv, "a")
				kb, _ := keep(t, srv, "b")
				a, b := open(t, k, counter.Options{Exact: exact, Format: counter.Int32}), open(t, kb, counter.Options{Format: counter.Int32})
				begin := func(number int64) {
					t.Helper()
					_, err := b.Set(t.Context(), math.MaxInt32)
					must(t, err)
					if behind {
						p.After(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Path: "/c/n"}, func(faultproxy.Request, faultproxy.Reply) {
							if _, err := b.Set(context.Background(), number); err != nil {
								t.Error(err)
							}
						})
					}
				}
				begin(7)
				mark := p.Mark()
				v, swapped, err := a.CompareAndSet(t.Context(), 7, 8)
				if behind && (v.Number != 8 || !swapped) || !behind && (v.Number != math.MaxInt32 || swapped || v.Stat.Version == 0) || err != nil {
					t.Errorf("exact %v, behind %v: CompareAndSet: %+v, %v, %v", exact, behind, v, swapped, err)
				}
				if ops := p.Since(mark).Asked().But(wire.OpPing).Ops(); !strings.Contains(ops, "get, sync, get") {
					t.Errorf("exact %v, behind %v: requests %s", exact, behind, ops)
				}
				begin(7)
				var over *counter.OverflowError
				if v, err = a.Add(t.Context(), 1); behind && (v.Number != 8 || err != nil) || !behind && !(errors.As(err, &over) && errors.Is(err, counter.ErrOverflow)) {
					t.Errorf("exact %v, behind %v: Add: %v, %v", exact, behind, v.Number, err)
				}
				if !behind {
					return
				}
				begin(9) // from then on
				if v, swapped, err = a.CompareAndSet(t.Context(), 7, 8); v.Number != 9 || swapped || err != nil {
					t.Errorf("exact %v: CompareAndSet: %+v, %v, %v", exact, v, swapped, err)
				}
			})
		}
	}
}
