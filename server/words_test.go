package server

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ask asks a four-letter word on a connection called "monitor".
func (r *rig) ask(word string) string {
	r.t.Helper()
	p := r.dial("monitor")
	p.raw([]byte(word))
	var b bytes.Buffer
	if _, err := b.ReadFrom(p.in); err != nil {
		r.t.Fatalf("%s: %v", word, err)
	}
	p.nc.Close()
	synctest.Wait()
	return b.String()
}

// A long answer is not cut short because it is taken slowly.
func TestALongAnswerIsTakenSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.Words = []string{"*"} })
		p := r.connect("c")
		const n, long = 5, 50000
		for i := range n {
			p.create(fmt.Sprintf("/%d%s", i, strings.Repeat("x", long)), zk.Ephemeral)
		}
		m := r.dial("monitor")
		m.raw([]byte("dump"))
		time.Sleep(3 * lingerTimeout)
		var b bytes.Buffer
		if _, err := b.ReadFrom(m.in); err != nil || b.Len() < n*long || !strings.Contains(b.String(), "Connections dump:") {
			t.Errorf("the answer has %d bytes, %v", b.Len(), err)
		}
	})
}

// A long answer counts as memory until it is taken, and one for which there is no room is not given.
func TestLongAnswersToWordsAreInTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.Words, o.AnswerBytesMax = []string{"*"}, 1<<20 })
		p := r.connect("c")
		for i := range 12 {
			p.create(fmt.Sprintf("/%d%s", i, strings.Repeat("x", 50000)), zk.Ephemeral)
		}
		monitors := []*peer{r.dial("monitor"), r.dial("monitor"), r.dial("monitor")}
		r.net.Link("monitor", "").Mute(memnet.ToClient)
		for _, m := range monitors {
			m.raw([]byte("dump"))
		}
		synctest.Wait()
		if used := r.answers.used.Load(); used < 600000 || used > 1<<20 {
			t.Errorf("%d bytes of answers are counted, want those of one", used)
		}
		time.Sleep(3 * r.Options().HandshakeTimeout)
		if used := r.answers.used.Load(); used != 0 {
			t.Errorf("%d bytes are counted in the end", used)
		}
		r.net.Link("monitor", "").Unmute(memnet.ToClient)
		if got := r.ask("dump"); !strings.Contains(got, "Connections dump:") {
			t.Errorf("then the answer is %q", got)
		}
	})
}

// The goroutine that answers a word sends the answer itself: the output's goroutine would wait only for a moment.
func TestAWordIsAnsweredByTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		c := start(t).newConn(1, far)
		c.out.writing = true // as if its goroutine had been faster
		go c.answerWord("srvr")
		near.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := near.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
}

// goldenWords is what each word says about the state that TestGoldenWords brings about: the
// shape is that of Apache ZooKeeper, with which the interop tests compare it.
var goldenWords = []struct{ word, want string }{
	{"ruok", "imok"},
	{"isro", "rw"},
	{"srvr", `Zookeeper version: VERSION
Latency min/avg/max: 0/0.0/0
Received: 13
Sent: 12
Connections: 3
Outstanding: 0
Zxid: 0x6
Mode: standalone
Node count: 9
`},
	{"stat", `Zookeeper version: VERSION
Clients:
 /A[1](queued=0,recved=8,sent=8)
 /B[1](queued=0,recved=2,sent=2)
 /M[0](queued=0,recved=1,sent=0)

Latency min/avg/max: 0/0.0/0
Received: 14
Sent: 13
Connections: 3
Outstanding: 0
Zxid: 0x6
Mode: standalone
Node count: 9
`},
	{"conf", `clientPort=-1
secureClientPort=-1
dataDir=/data/version-2
dataDirSize=66030
dataLogDir=/data/version-2
dataLogSize=66030
tickTime=2000
maxClientCnxns=60
minSessionTimeout=4000
maxSessionTimeout=40000
clientPortListenBacklog=-1
serverId=0
`},
	{"dirs", "datadir_size: 66030\nlogdir_size: 66030\n"},
	{"cons", ` /A[1](queued=0,recved=8,sent=8,sid=SA,lop=GETC,est=946684800000,to=10000,lcxid=0x7,lzxid=0x6,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)
 /B[1](queued=0,recved=2,sent=2,sid=SB,lop=GETD,est=946684800000,to=10000,lcxid=0x1,lzxid=0x6,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)
 /M[0](queued=0,recved=1,sent=0)

`},
	{"dump", `SessionTracker dump:
Session Sets (1)/(2):
2 expire at START+12s:
	SA
	SB
ephemeral nodes dump:
Sessions with Ephemerals (1):
SA:
	/eph
	/eph2
Connections dump:
Connections Sets (2)/(3):
1 expire at START+10s:
	ip: /M sessionId: 0x0
2 expire at START+12s:
	ip: /A sessionId: SA
	ip: /B sessionId: SB
`},
	{"wchs", "2 connections watching 2 paths\nTotal watches:3\n"},
	{"wchc", "SA\n\t/missing\n\t/n\nSB\n\t/n\n\n"},
	{"wchp", "/missing\n\tSA\n/n\n\tSA\n\tSB\n\n"},
	{"hash", ""},
	{"mntr", `zk_version	VERSION
zk_server_state	standalone
zk_avg_latency	0.0
zk_max_latency	0
zk_min_latency	0
zk_packets_received	23
zk_packets_sent	22
zk_num_alive_connections	3
zk_outstanding_requests	0
zk_znode_count	9
zk_watch_count	4
zk_ephemerals_count	2
zk_approximate_data_size	67
DESCRIPTORS
zk_uptime	0
zk_global_sessions	2
zk_local_sessions	0
zk_connection_request_count	2
zk_connection_rejected	0
zk_stale_sessions_expired	0
zk_avg_readlatency	0.0
zk_min_readlatency	0
zk_max_readlatency	0
zk_cnt_readlatency	4
zk_sum_readlatency	0
zk_p50_readlatency	0
zk_p95_readlatency	0
zk_p99_readlatency	0
zk_p999_readlatency	0
zk_avg_updatelatency	0.0
zk_min_updatelatency	0
zk_max_updatelatency	0
zk_cnt_updatelatency	6
zk_sum_updatelatency	0
zk_p50_updatelatency	0
zk_p95_updatelatency	0
zk_p99_updatelatency	0
zk_p999_updatelatency	0
zk_avg_fsynctime	0.0
zk_min_fsynctime	0
zk_max_fsynctime	0
zk_cnt_fsynctime	6
zk_sum_fsynctime	0
zk_avg_snapshottime	0.0
zk_min_snapshottime	0
zk_max_snapshottime	0
zk_cnt_snapshottime	0
zk_sum_snapshottime	0
zk_avg_sync_processor_batch_size	1.0
zk_min_sync_processor_batch_size	1
zk_max_sync_processor_batch_size	1
zk_cnt_sync_processor_batch_size	6
zk_sum_sync_processor_batch_size	6
`},
	{"crst", "Connection stats reset.\n"},
	{"cons", ` /A[1](queued=0,recved=0,sent=0,sid=SA,lop=NA,est=946684800000,to=10000,lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)
 /B[1](queued=0,recved=0,sent=0,sid=SB,lop=NA,est=946684800000,to=10000,lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)
 /M[0](queued=0,recved=1,sent=0)

`},
	{"srst", "Server stats reset.\n"},
	{"srvr", `Zookeeper version: VERSION
Latency min/avg/max: 0/0.0/0
Received: 1
Sent: 1
Connections: 3
Outstanding: 0
Zxid: 0x6
Mode: standalone
Node count: 9
`},
}

func TestGoldenWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.Words, o.ApachePasswords = []string{"*"}, true }) // ids in the order of the sessions
		a, b := r.connect("a"), r.connect("b")
		a.create("/eph", zk.Ephemeral)
		a.create("/eph2", zk.Ephemeral)
		a.create("/n", zk.Persistent)
		a.create("/n/child", zk.Persistent)
		a.call(wire.OpGetData, &wire.WatchRequest{Path: "/n", Watch: true}, nil)
		a.call(wire.OpExists, &wire.WatchRequest{Path: "/missing", Watch: true}, nil)
		a.call(wire.OpGetChildren, &wire.WatchRequest{Path: "/n", Watch: true}, nil)
		b.call(wire.OpGetData, &wire.WatchRequest{Path: "/n", Watch: true}, nil)
		for _, g := range goldenWords {
			got := tidyWord(r.ask(g.word), a, b)
			for _, d := range []time.Duration{10 * time.Second, 12 * time.Second} {
				got = strings.ReplaceAll(got, r.started.Add(d).Format("Mon Jan 02 15:04:05 MST 2006"), "START+"+d.String())
			}
			if got != g.want {
				t.Errorf("%s says\n%s\nwant\n%s", g.word, got, g.want)
			}
		}
	})
}

// tidyWord replaces what differs from run to run by names.
func tidyWord(text string, a, b *peer) string {
	for _, r := range []struct{ old, new string }{
		{VersionText(), "VERSION"}, {sessionID(a.session), "SA"}, {sessionID(b.session), "SB"},
		{"/" + a.nc.LocalAddr().String() + "[", "/A["}, {"/" + b.nc.LocalAddr().String() + "[", "/B["},
		{"/" + a.nc.LocalAddr().String() + " ", "/A "}, {"/" + b.nc.LocalAddr().String() + " ", "/B "},
	} {
		text = strings.ReplaceAll(text, r.old, r.new)
	}
	text = regexp.MustCompile(`/monitor\S*([ \[])`).ReplaceAllString(text, "/M$1")
	return regexp.MustCompile(`zk_open_file_descriptor_count\t\d+\nzk_max_file_descriptor_count\t\d+\n`).ReplaceAllString(text, "DESCRIPTORS\n")
}

func TestEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.Words = []string{"envi"} })
		lines := strings.Split(r.ask("envi"), "\n")
		if lines[0] != "Environment:" || lines[1] != "zookeeper.version="+VersionText() || lines[len(lines)-1] != "" {
			t.Errorf("envi begins with %q and ends with %q", lines[:2], lines[len(lines)-1])
		}
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, l := range lines[1 : len(lines)-1] {
			k, v, ok := strings.Cut(l, "=")
			if !ok || v == "" || seen[k] != "" {
				t.Errorf("envi: %q is no key with a value, or a second time", l)
			}
			seen[k] = v
		}
		if seen["user.dir"] != dir || !strings.HasSuffix(seen["os.memory.total"], "MB") {
			t.Errorf("envi says %v", seen)
		}
	})
}

// A line of hash for every 128th transaction, the newest 1024 of them.
func TestHashOfEvery128thTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.Words = []string{"hash"} })
		c := r.connect("c")
		want := ""
		for i := int64(2); i <= 2*digestInterval+1; i++ {
			c.create(fmt.Sprintf("/n%d", i), zk.Persistent)
			if i%digestInterval == 0 {
				d, _ := r.tree.Digest()
				want += fmt.Sprintf("%x: %d\n", i, int64(d.Tree))
			}
		}
		if got := r.ask("hash"); got != want || strings.Count(got, "\n") != 2 {
			t.Errorf("hash says\n%s\nwant\n%s", got, want)
		}
	})
}

func TestDigestLogForgetsTheOldest(t *testing.T) {
	var s Server
	for i := range digestsMax + 3 {
		s.digests.add(TreeDigest{Zxid: int64(i)})
	}
	got := s.Digests()
	if len(got) != digestsMax || got[0].Zxid != 3 || got[digestsMax-1].Zxid != digestsMax+2 {
		t.Errorf("%d digests from %d to %d", len(got), got[0].Zxid, got[len(got)-1].Zxid)
	}
}

// A whole word that is not allowed is refused by name; srvr never is.
func TestWhitelistOfWords(t *testing.T) {
	for _, list := range [][]string{nil, {"ruok", "mntr"}, {"*"}} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, func(o *Options) { o.Words = list })
			for word := range words {
				refusal := word + " is not executed because it is not in the whitelist.\n"
				allowed := word == "srvr" || len(list) == 1 || len(list) == 2 && (word == "ruok" || word == "mntr")
				if refused := r.ask(word) == refusal; refused == allowed {
					t.Errorf("list %q: %s refused: %v", list, word, refused)
				}
			}
		})
	}
}

func TestTimeOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.Words = []string{"*"} })
		c := r.connect("c")
		release := r.stall()
		c.send(wire.OpCreate, createReq("/n", zk.Persistent))
		time.Sleep(1500 * time.Millisecond)
		if got := r.ask("stat"); !strings.Contains(got, "(queued=1,recved=2,sent=1)") || !strings.Contains(got, "\nOutstanding: 1\n") {
			t.Errorf("with a request waiting, stat says\n%s", got)
		}
		release()
		c.answerTo(c.xid, nil)
		if got := r.ask("cons"); !strings.Contains(got, ",lop=CREA,") || !strings.Contains(got, ",lresp=1500,llat=1500,minlat=0,avglat=750,maxlat=1500)") {
			t.Errorf("after an answer that took 1.5 s, cons says\n%s", got)
		}
		if got := r.Stats(); got.Latency != (Latency{Min: 0, Mean: 750, Max: 1500}) || got.SlowSyncs != 1 {
			t.Errorf("latency %+v, %d slow syncs", got.Latency, got.SlowSyncs)
		}
		d := r.connect("d")
		if got := r.ask("cons"); !strings.Contains(got, "sid="+sessionID(d.session)+",lop=SESS,") {
			t.Errorf("cons does not say that a session has just been opened:\n%s", got)
		}
	})
}
