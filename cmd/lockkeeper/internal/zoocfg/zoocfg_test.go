package zoocfg

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/tlsconf"
	"github.com/lockkeeper/lockkeeper/server"
)

// parse reads and parses a text.
func parse(text string) (Config, error) {
	settings, err := Read("zoo.cfg", strings.NewReader(text))
	if err != nil {
		return Config{}, err
	}
	return Parse(settings)
}

func TestParse(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := server.Options{
		TickTime: 3 * time.Second, MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: time.Minute, SnapRetain: -1,
	}
	loopback := Admin{Enabled: true, Port: "8080", CommandPath: "/commands"}
	with := func(change func(*Config)) Config {
		c := Config{Server: plain, Admin: loopback}
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		text string
		want Config
	}{
		"nothing": {"", with(func(*Config) {})},
		"IPv6, in brackets and without": {"clientPort=1\nclientPortAddress=[::1]\nsecureClientPort=2\nsecureClientPortAddress=::1\nadmin.serverAddress=[::1]", with(func(c *Config) {
			c.Address, c.SecureAddress, c.Admin.Host, c.Admin.Asked = "[::1]:1", "[::1]:2", "::1", true
		})},
		"TLS at the address of clients": {"clientPort=1\nclientPortAddress=10.0.0.1\nsecureClientPort=2", with(func(c *Config) {
			c.Address, c.SecureAddress = "10.0.0.1:1", "10.0.0.1:2"
		})},
		"the sample": {`
# The number of milliseconds of each tick
tickTime=2000
initLimit=10
syncLimit=5
dataDir=/var/lib/zookeeper/
clientPort=2181
#maxClientCnxns=7
autopurge.snapRetainCount=4
autopurge.purgeInterval=1
`, with(func(c *Config) {
			c.Address = ":2181"
			c.Server.DataDir, c.Server.TickTime, c.Server.SnapRetain = "/var/lib/zookeeper", 2*time.Second, 4
			c.Server.MinSessionTimeout, c.Server.MaxSessionTimeout = 4*time.Second, 40*time.Second
			c.Ensemble = []Setting{{"initLimit", "10", "zoo.cfg:4"}, {"syncLimit", "5", "zoo.cfg:5"}}
		})},
		"the server": {strings.Join([]string{
			"dataDir: /data", "dataLogDir = /log", "clientPortAddress=::1", "clientPort=0", "minSessionTimeout=-1", "maxSessionTimeout=90000",
			"maxClientCnxns=60", "maxCnxns=9", "globalOutstandingLimit=77", "preAllocSize=1024", "snapCount=1", "extendedTypesEnabled=TRUE",
			"digest.enabled=false", "snapshot.trust.empty=true", "enforceQuota=true", "4lw.commands.whitelist=ruok, stat,mntr",
			`DigestAuthenticationProvider.superDigest=super:abc\=`, "autopurge.snapRetainCount=1", "autopurge.purgeInterval=2",
			"jute.maxbuffer=0x1ffffe", "znode.container.checkIntervalMs=5000", "znode.container.maxNeverUsedIntervalMs=300000", "forceSync=no", "reconfigEnabled=true", "lockkeeper.apachePasswords=true", "X509AuthenticationProvider.superUser=CN=admin",
		}, "\r\n"), with(func(c *Config) {
			c.Address = "[::1]:0"
			c.Server = server.Options{
				DataDir: "/data", LogDir: "/log", TickTime: 3 * time.Second, MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 90 * time.Second,
				ConnectionsPerAddressMax: 60, ConnectionsMax: 9, OutstandingAllMax: 77, PreAllocBytes: 1 << 20, SnapCount: 2, ExtendedTypes: true,
				NoDigests: true, TrustEmpty: true, EnforceQuota: true, Words: []string{"ruok", "stat", "mntr"}, SuperDigest: "super:abc=",
				SnapRetain: 3, FrameBytesMax: 0x1ffffe, ReapInterval: 5 * time.Second, NeverUsed: 5 * time.Minute, NoSync: true, SuperSubject: "CN=admin",
				ReconfigEnabled: true, ApachePasswords: true,
			}
		})},
		"the disk": {"snapSizeLimitInKb=8\ntxnLogSizeLimitInKb=4\nfsync.warningthresholdms=50", with(func(c *Config) {
			c.Server.SnapBytes, c.Server.LogBytesMax, c.Server.SlowSync = 8<<10, 4<<10, 50*time.Millisecond
		})},
		"no limits of the disk": {"snapSizeLimitInKb=0\ntxnLogSizeLimitInKb=-1", with(func(c *Config) { c.Server.SnapBytes = -1 })},
		"memory": {"largeRequestMaxBytes=2000000\nlockkeeper.answerBytesMax=3000000\nlockkeeper.watchBytesMax=4000000\nlockkeeper.multiOpsMax=500\nlockkeeper.connectRateMax=60", with(func(c *Config) {
			c.Server.LargeRequestBytesMax, c.Server.AnswerBytesMax, c.Server.WatchBytesMax = 2000000, 3000000, 4000000
			c.Server.MultiOpsMax, c.Server.ConnectRateMax = 500, 60
		})},
		"any rate": {"lockkeeper.connectRateMax=0", with(func(c *Config) { c.Server.ConnectRateMax = -1 })},
		"no limit": {"maxClientCnxns=0", with(func(c *Config) { c.Server.ConnectionsPerAddressMax = -1 })},
		"TLS": {strings.Join([]string{
			"secureClientPort=2281", "secureClientPortAddress=10.0.0.1", "zookeeper.ssl.keyStore.location=/k.pem", "ssl.keyStore.passwordPath=" + secret,
			"ssl.keyStore.type=PEM", "ssl.trustStore.location=/t.pem", "ssl.trustStore.type=PEM", "ssl.clientAuth=WANT",
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "ssl.crl=false",
			"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		}, "\n"), with(func(c *Config) {
			c.SecureAddress = "10.0.0.1:2281"
			c.TLS = tlsconf.Options{
				KeyStore: tlsconf.Store{Location: "/k.pem", Password: "open sesame", Type: "PEM"}, TrustStore: tlsconf.Store{Location: "/t.pem", Type: "PEM"},
				ClientAuth: "want",
			}
		})},
		"TLS alone": {"clientPort=0\nsecureClientPort=2281", with(func(c *Config) {
			c.Address, c.SecureAddress = "", ":2281"
		})},
		"ports for people": {"admin.serverAddress=0.0.0.0\nzookeeper.admin.serverPort=9\nadmin.commandURL=/cmd\n" +
			"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\nmetricsProvider.httpHost=h",
			with(func(c *Config) {
				c.Admin = Admin{Enabled: true, Asked: true, Host: "0.0.0.0", Port: "9", CommandPath: "/cmd"}
				c.Metrics = "h:7000"
			})},
		"no admin port": {"admin.enableServer=false", with(func(c *Config) { c.Admin.Enabled, c.Admin.Asked = false, true })},
		"a line of its own": {"server.1=localhost:2888:3888;[::1]:2182\n", with(func(c *Config) {
			c.Address = "[::1]:2182"
			c.Notes = []Note{{Setting{"server.1", "localhost:2888:3888;[::1]:2182", "zoo.cfg:1"}, "is a line of an ensemble, and is passed over, but for the port of clients"}}
		})},
		"a line and a client port": {"clientPort=2\nserver.1=a:1:2;2182", with(func(c *Config) {
			c.Address = ":2"
			c.Notes = []Note{{Setting{"server.1", "a:1:2;2182", "zoo.cfg:2"}, "is a line of an ensemble, and is passed over"}}
		})},
		"lines that go on": {"dataDir=/a\\\n   b\\ c\\u00e9\n!comment\\\ntickTime=2\\\n\nsnapCount 5\\", with(func(c *Config) {
			c.Server.DataDir, c.Server.TickTime, c.Server.SnapCount = "/ab cé", 2*time.Millisecond, 5
			c.Server.MinSessionTimeout, c.Server.MaxSessionTimeout = 4*time.Millisecond, 40*time.Millisecond
		})},
		"later wins, prefix or not": {"dataDir=/a\ndataDir=/b\nsnapCount=nonsense\nzookeeper.snapCount=7", with(func(c *Config) { c.Server.DataDir, c.Server.SnapCount = "/b", 7 })},
		"unknown": {"frob=1\n\n\\\n  knob=2\nzookeeper.tickTime=5", with(func(c *Config) {
			c.Unknown = []Setting{{"frob", "1", "zoo.cfg:1"}, {"knob", "2", "zoo.cfg:3"}, {"zookeeper.tickTime", "5", "zoo.cfg:5"}} // the last is none of ZooKeeper's
		})},
	} {
		got, err := parse(c.text)
		got.Public = ""
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", name, got, err, c.want)
		}
	}
}

func TestVersionsOfTLS(t *testing.T) {
	const suite12, suite13 = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"
	for text, want := range map[string]tlsconf.Options{
		"ssl.protocol=TLS":     {},
		"ssl.protocol=TLSv1.2": {MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12},
		"ssl.enabledProtocols=TLSv1.3,TLSv1.2\nssl.protocol=TLSv1.2":             {MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13},
		"ssl.protocol=TLSv1.2\nssl.enabledProtocols=TLSv1.3":                     {MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13},
		"ssl.ciphersuites=" + suite12:                                            {MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
		"ssl.ciphersuites=" + suite13:                                            {MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13},
		"ssl.ciphersuites=" + suite13 + ", " + suite12:                           {MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
		"ssl.ciphersuites=" + suite13 + "," + suite12 + "\nssl.protocol=TLSv1.3": {MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13},
	} {
		c, err := parse(text)
		if err != nil || !reflect.DeepEqual(c.TLS, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, c.TLS, err, want)
		}
	}
}

// What has no effect is spoken of, with its place; a value that changes nothing is not.
func TestNotes(t *testing.T) {
	for text, want := range map[string]string{
		"clientPortListenBacklog=50":                                    "zoo.cfg:1: clientPortListenBacklog=50: has no effect",
		"clientPortListenBacklog=-1":                                    "",
		"snapSizeLimitInKb=9":                                           "",
		"commitLogCount=9":                                              "followers",
		"ssl.enabledProtocols=TLSv1.1, TLSv1.2":                         "TLSv1.1: has no effect",
		"ssl.ciphersuites=TLS_RSA_WITH_NULL_MD5,TLS_AES_128_GCM_SHA256": "TLS_RSA_WITH_NULL_MD5: has no effect",
		"ssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,TLS_AES_128_GCM_SHA256": "CBC",
		"standaloneEnabled=false":         "alone",
		"skipACL=yes":                     "always heeded",
		"metricsProvider.className=a.b.C": "/metrics",
		"maxBatchSize=5":                  "tunes",
		"forceSync=false":                 "only no turns syncs off",
		"forceSync=No":                    "only no turns syncs off",
		"forceSync=true":                  "",
		"forceSync=no":                    "",
		"jute.maxbuffer=2097150":          "",
		"jute.maxbuffer=0x400000":         "more than 2097150 bytes is refused",
	} {
		c, err := parse(text)
		got := fmt.Sprint(c.Notes)
		if err != nil || want == "" && len(c.Notes) > 0 || !strings.Contains(got, want) {
			t.Errorf("%s: notes %s, %v; want %q", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"\ntickTime=0":                           "zoo.cfg:2: tickTime=0: must be a number of milliseconds, from 1 to",
		"tickTime=fast":                          "tickTime=fast",
		"tickTime=99999999999":                   "from 1 to 2147483647",
		"clientPort=70000":                       "from 0 to 65535",
		"secureClientPort=x":                     "port",
		"admin.serverPort=-1":                    "from 0 to 65535",
		"admin.commandURL=cmd":                   "/commands",
		"admin.commandURL=/a//b":                 "/commands",
		"admin.commandURL=/metrics/":             "another path",
		"forceSync=maybe":                        "yes or no",
		"maxClientCnxns=-1":                      "from 0",
		"jute.maxbuffer=0x1":                     "from 1024",
		"dataDir=":                               "directory",
		"ssl.protocol=TLSv1":                     "TLSv1.2",
		"ssl.enabledProtocols=TLSv1,TLSv1.1":     "TLSv1.3 or both",
		"ssl.ciphersuites=TLS_RSA_WITH_NULL_MD5": "no cipher suite",
		"ssl.protocol=TLSv1.3\nssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "of the version of TLS",
		"snapSizeLimitInKb=many":                            "kilobytes",
		"fsync.warningthresholdms=0":                        "from 1 to",
		"ssl.clientAuth=perhaps":                            "need, want or none",
		"ssl.keyStore.passwordPath=/no/such/file":           "/no/such/file",
		"ssl.keyStore.passwordPath=/":                       "is not a regular file",
		"tickTime=2147483647":                               "too long",
		"ssl.crl=true":                                      "revoked",
		"sessionRequireClientSASLAuth=true":                 "refuses",
		"zookeeper.enforce.auth.enabled=true":               "refuses",
		"dynamicConfigFile=/x":                              "Apache ZooKeeper",
		"server.1=a:1:2\nserver.2=b:1:2\n":                  "zoo.cfg:1: server.1, server.2: an ensemble of 2 servers",
		"server.1=a:1:2;many":                               "server.1=many",
		"minSessionTimeout=2000\nmaxSessionTimeout=1000":    "2s is longer than maxSessionTimeout of 1s",
		"minSessionTimeout=90000":                           "longer than maxSessionTimeout of 1m0s",
		"DigestAuthenticationProvider.superDigest=x:secret": "superDigest=…",
		strings.Repeat("#", fileBytesMax+1):                 "longer than",
	} {
		_, err := parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want an error with %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func TestPublicLeavesSecretsOut(t *testing.T) {
	c, err := parse("tickTime=5\nssl.keyStore.password=secret\nDigestAuthenticationProvider.superDigest=super:secret\nssl.trustStore.password=secret\n")
	if err != nil || c.Public != "tickTime=5\n" {
		t.Errorf("Public is %q, %v", c.Public, err)
	}
}

// The example that comes with the package says nothing that is not so.
func TestPackagedExample(t *testing.T) {
	f, err := os.Open("../../../../packaging/zoo.cfg")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	settings, err := Read("zoo.cfg", f)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(settings)
	if err != nil || len(c.Notes)+len(c.Unknown)+len(c.Ensemble) > 0 || c.Address == "" || c.Server.DataDir == "" {
		t.Errorf("the example: %v, %+v", err, c)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	// What is commented out is no nonsense either.
	c, err = parse(regexp.MustCompile(`(?m)^#(\S)`).ReplaceAllString(string(text), "$1"))
	if err != nil || len(c.Notes)+len(c.Unknown) > 0 || c.SecureAddress == "" {
		t.Errorf("with all settings on: %v, %v, %v", err, c.Notes, c.Unknown)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a=b\nc\\=d : e\\\n f\\u00e9\\u12")
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := Read("f", strings.NewReader(text))        // ends, and does not panic
		if err == nil && !strings.Contains(text, "passwordPath") { // which reads a file
			Parse(settings)
		}
	})
}
