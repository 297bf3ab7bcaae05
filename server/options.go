package server

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options configures a Server. The zero value of each field stands for its default, and those are
// Apache ZooKeeper's where it has such a setting.
type Options struct {
	// DataDir holds the snapshots and LogDir the transaction logs, each in a folder version-2
	// below it. DataDir is required; LogDir is DataDir by default.
	DataDir, LogDir string

	// TickTime is the unit of time of sessions: they expire at multiples of it. Default 3 s.
	TickTime time.Duration
	// MinSessionTimeout and MaxSessionTimeout bound the session timeout that a client is granted.
	// Defaults 2 and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration

	// FrameBytesMax is how many bytes a request may have (jute.maxbuffer). Default 1048575.
	FrameBytesMax int
	// ConnectionsPerAddressMax limits the connections from one address, or from one /64 of IPv6; those over Unix sockets
	// are not counted. Default 60; negative is unlimited.
	ConnectionsPerAddressMax int
	// ConnectionsMax limits all connections. Default: what leaves the process some file descriptors. The last quarter is
	// for addresses that have less than a sixteenth of all.
	ConnectionsMax int
	// OutstandingMax is how many requests of one connection may wait for their answers before
	// the server stops reading from it. Default 1000.
	OutstandingMax int
	// OutstandingAllMax is how many requests of all connections together may wait for their
	// answers (globalOutstandingLimit); beyond it the server reads only from connections that have
	// none waiting. Default 1000; negative is unlimited.
	OutstandingAllMax int
	// OutputBytesMax is how many bytes of answers and events may wait for a client that does not
	// read them. If more wait when the next one is added, the server hangs up. Default 16 MiB.
	OutputBytesMax int
	// WatchesMax is how many watches one connection may have; a request for more is answered
	// with zk.ErrThrottled. Default 1000000.
	WatchesMax int
	// AnswerBytesMax bounds the memory for answers and events that clients have not taken yet, of all connections
	// together; up to 64 KiB a connection are not limited by it. While it is used up, the server does not read from
	// connections to which more waits, and closes the one that holds the most without taking it. Default 128 MiB.
	AnswerBytesMax int
	// WatchBytesMax bounds the memory for the watches of all connections together; up to 256 KiB a connection are not
	// limited by it. The last quarter is for connections that have no more than a sixteenth. A request for more is answered
	// with zk.ErrThrottled; the connection is closed if it asks for the watches that it had on an earlier connection. Default
	// 256 MiB.
	WatchBytesMax int
	// LargeRequestBytesMax bounds the memory for requests of more than 64 KiB that are being read, of all connections
	// together (largeRequestMaxBytes). While it is used up, further ones wait, and the connection that has taken the
	// longest for its request is closed. Default 64 MiB.
	LargeRequestBytesMax int
	// MultiOpsMax is how many operations a multi or multiRead may have; one with more is answered with
	// zk.ErrMarshalling. Default 10000.
	MultiOpsMax int
	// ConnectRateMax is how many new sessions a second one address may have, or one /64 of IPv6, once it has had as many
	// at once; more of them wait. A TLS handshake counts as 5, a wrong password or other refusal as 20. Default 1000;
	// negative is unlimited.
	ConnectRateMax int
	// HandshakeTimeout is how long a connection may take to ask for a session. Default 10 s.
	HandshakeTimeout time.Duration

	// SuperDigest is the digest identity ("super:base64") that may do everything. Default none.
	SuperDigest string
	// SuperSubject is the subject of a client certificate ("CN=admin,O=ops") whose owner may do
	// anything (X509AuthenticationProvider.superUser). Default none.
	SuperSubject string
	// ApachePasswords gives sessions the ids and passwords that Apache ZooKeeper gives them, which any client can compute.
	// It is for the last run on a data directory that Apache ZooKeeper is going to take over: clients that have connected
	// in that run keep their sessions. Clients that know the server's own passwords are accepted as before. Default: a
	// password cannot be computed without the secret in DataDir.
	ApachePasswords bool
	// Secure closes what Apache ZooKeeper leaves open to every client. Only super (SuperDigest, SuperSubject) may change the
	// data and the access control list of the root, and anything below /zookeeper, which is where quotas are. A znode below the root
	// is deleted only by clients that its own list allows to delete. All may still create znodes below the root, as its
	// list allows. Serve refuses a listener without TLS that other machines can reach. Default: as Apache ZooKeeper.
	Secure bool
	// NoAudit leaves the lines "audit" out of the log: changes of access control lists and below /zookeeper, and sessions
	// that go over to another connection (audit.enable=false).
	NoAudit bool
	// Words are the four-letter words that are answered, besides srvr, which always is; "*" stands
	// for all of them. Default none.
	Words []string
	// ExtendedTypes allows znodes with a time to live.
	ExtendedTypes bool

	// ReconfigEnabled answers a reconfig as Apache ZooKeeper does alone where reconfigEnabled is set: with
	// zk.ErrUnimplemented instead of zk.ErrReconfigDisabled, which not every client knows.
	ReconfigEnabled bool

	// EnforceQuota makes hard limits of quotas binding: a write beyond one is answered with
	// zk.ErrQuotaExceeded (enforceQuota). Without it, the server only logs that a limit is exceeded.
	EnforceQuota bool

	// ReapInterval is how often empty containers and outlived znodes are looked for. Default 60 s.
	ReapInterval time.Duration
	// NeverUsed is the age at which a container that never had a child is reaped. Default never.
	NeverUsed time.Duration

	// A snapshot is written after SnapCount transactions, or SnapBytes bytes of them
	// (snapSizeLimitInKb), whichever comes first; less a random part of up to a half of each.
	// Defaults 100000 and 4 GiB; a negative SnapBytes is unlimited.
	SnapCount int
	SnapBytes int64
	// SnapRetain is how many snapshots, with the logs that belong to them, are kept when a new
	// one has been written. Default 3; negative keeps them all.
	SnapRetain int
	// PreAllocBytes is the step by which log files grow. Default 64 MiB.
	PreAllocBytes int64
	// LogBytesMax is the length at which a log file is followed by the next, even without a
	// snapshot (txnLogSizeLimitInKb). Default unlimited.
	LogBytesMax int64
	// SlowSync is how long a sync of the log may take without being logged and counted as slow
	// (fsync.warningthresholdms). Default 1 s.
	SlowSync time.Duration
	// NoSync leaves it to the operating system when transactions reach the disk (forceSync=no).
	// Power failure then loses what was acknowledged.
	NoSync bool
	// NoDigests leaves out the sum over the tree that ZooKeeper since 3.6 puts beside every
	// transaction to notice damage.
	NoDigests bool
	// TrustEmpty accepts logs without any snapshot, as ZooKeeper 3.4 left them.
	TrustEmpty bool

	fs   vfs.FS           // the disk; nil is the operating system's
	wall func() time.Time // the clock of stat's times, which may be set at any time; nil is time.Now

	// Logger gets a line for whatever an operator should know. Default: silent.
	Logger *slog.Logger
}

// Limits without an option.
const (
	outstandingBytesMax = 4 << 20  // of one connection's requests that wait, their answers' expected bytes included, if a quarter of OutputBytesMax is not less; the last request may go beyond it
	outstandingBytesAll = 64 << 20 // likewise of all connections together; the last request of each may go beyond it
	connectBytesMax     = 512      // of the first frame, which comes before any authentication and has 45
	identitiesMax       = 64       // that one connection may collect with auth requests
	identityBytesMax    = 64 << 10 // of their names together
	ephemeralBytesMax   = 1 << 20  // of the paths of one session's ephemerals, which its closing transaction lists
	batchMax            = 1000     // requests that share one sync
	batchBytesMax       = 8 << 20  // of those requests with their answers, or of their transactions; the last one may go beyond it
	descriptorsSpared   = 100      // that connections leave to logs, snapshots and the admin port; a quarter of all if that is less
	lingerTimeout       = time.Second
)

func init() {
	bridge.ProvideServers(func(options any, disk any) { options.(*Options).fs = disk.(vfs.FS) })
}

// withDefaults replaces zero values by defaults, and refuses values that cannot be used.
func (o Options) withDefaults() (Options, error) {
	if o.DataDir == "" {
		return o, errors.New("server: no data directory given")
	}
	setDefault(&o.LogDir, o.DataDir)
	if o.fs == nil {
		o.fs = vfs.OS{}
	}
	setDefault(&o.TickTime, 3*time.Second)
	setDefault(&o.MinSessionTimeout, 2*o.TickTime)
	setDefault(&o.MaxSessionTimeout, 20*o.TickTime)
	setDefault(&o.FrameBytesMax, wire.FrameBytesMax)
	setDefault(&o.ConnectionsPerAddressMax, 60)
	setDefault(&o.OutstandingMax, 1000)
	setDefault(&o.OutstandingAllMax, 1000)
	setDefault(&o.OutputBytesMax, 16<<20)
	setDefault(&o.WatchesMax, 1000000)
	setDefault(&o.AnswerBytesMax, 128<<20)
	setDefault(&o.WatchBytesMax, 256<<20)
	setDefault(&o.LargeRequestBytesMax, 64<<20)
	setDefault(&o.MultiOpsMax, 10000)
	setDefault(&o.ConnectRateMax, 1000)
	setDefault(&o.HandshakeTimeout, 10*time.Second)
	setDefault(&o.ReapInterval, time.Minute)
	setDefault(&o.SnapCount, 100000)
	setDefault(&o.SnapBytes, 4<<30)
	setDefault(&o.SnapRetain, 3)
	setDefault(&o.SlowSync, time.Second)
	if o.wall == nil {
		o.wall = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MinSessionTimeout > math.MaxInt32*time.Millisecond {
		return o, fmt.Errorf("server: session timeouts are from %v: clients cannot be told of more than 2^31-1 ms", o.MinSessionTimeout)
	}
	if o.TickTime < time.Millisecond || o.MinSessionTimeout < time.Millisecond || o.MinSessionTimeout > o.MaxSessionTimeout {
		return o, fmt.Errorf("server: the tick is %v and session timeouts are from %v to %v: the tick must be a millisecond or more, and the timeouts in order",
			o.TickTime, o.MinSessionTimeout, o.MaxSessionTimeout)
	}
	if o.ReapInterval < 0 {
		return o, fmt.Errorf("server: the interval for reaping containers is %v: it must not be negative", o.ReapInterval)
	}
	if o.FrameBytesMax < 1<<10 || o.OutputBytesMax < 1<<10 || o.HandshakeTimeout < time.Millisecond {
		return o, fmt.Errorf("server: FrameBytesMax %d, OutputBytesMax %d, HandshakeTimeout %v: no client could connect and ask", o.FrameBytesMax, o.OutputBytesMax, o.HandshakeTimeout)
	}
	if o.SuperDigest != "" {
		_, digest, _ := strings.Cut(o.SuperDigest, ":") // the user may have any name
		sum, err := base64.StdEncoding.DecodeString(digest)
		if err != nil || len(sum) != sha1.Size {
			return o, errors.New(`server: SuperDigest is not a user, as in "super:", and the base64 of a SHA-1: it would let no client in`)
		}
	}
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) treeOptions() tree.Options {
	return tree.Options{
		ExtendedTypes:     o.ExtendedTypes,
		EphemeralBytesMax: ephemeralBytesMax,
		EnforceQuota:      o.EnforceQuota,
		Secure:            o.Secure,
		NeverUsed:         o.NeverUsed.Milliseconds(),
	}
}

// reconfigCode is the answer to a reconfig, which is for ensembles.
func (o *Options) reconfigCode() zk.Code {
	if o.ReconfigEnabled {
		return zk.ErrUnimplemented
	}
	return zk.ErrReconfigDisabled
}
