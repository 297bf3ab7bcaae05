package zoocfg

import (
	"fmt"
	"math"
	"os"
	urlpath "path"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/tlsconf"
)

// ruleOf returns the rule of a key, nil if there is none.
func ruleOf(key string) rule {
	if r, ok := fileKeys[key]; ok {
		return r
	}
	if r, ok := properties[key]; ok {
		return r
	}
	for prefix, r := range families {
		if strings.HasPrefix(key, prefix) {
			return r
		}
	}
	if slices.Contains(tuning, key) {
		return noEffect("it tunes a part of ZooKeeper that is not here")
	}
	if isServer(key) {
		return func(p *parser, s Setting) error {
			p.servers = append(p.servers, s)
			return nil
		}
	}
	return nil
}

// isProperty reports whether ZooKeeper takes the key for the name of a JVM property.
func isProperty(key string) bool {
	_, inFile := fileKeys[key]
	return !inFile && !concernsEnsemble(key) && ruleOf(key) != nil
}

// fileKeys are the keys that ZooKeeper itself looks for in the file.
var fileKeys = map[string]rule{
	"dataDir":                 path(func(p *parser) *string { return &p.Server.DataDir }),
	"dataLogDir":              path(func(p *parser) *string { return &p.Server.LogDir }),
	"clientPort":              port(func(p *parser) *string { return &p.port }),
	"clientPortAddress":       host(func(p *parser) *string { return &p.host }),
	"secureClientPort":        port(func(p *parser) *string { return &p.securePort }),
	"secureClientPortAddress": host(func(p *parser) *string { return &p.secureHost }),
	"tickTime":                milliseconds(1, func(p *parser, d time.Duration) { p.Server.TickTime = d }),
	"minSessionTimeout":       number(unset, math.MaxInt32, "a number of milliseconds, -1 being the default", func(p *parser, n int64) { p.minTimeout = n }),
	"maxSessionTimeout":       number(unset, math.MaxInt32, "a number of milliseconds, -1 being the default", func(p *parser, n int64) { p.maxTimeout = n }),
	"maxClientCnxns": number(0, math.MaxInt32, "a number of connections, 0 being unlimited", func(p *parser, n int64) {
		p.Server.ConnectionsPerAddressMax = int(n)
		if n == 0 {
			p.Server.ConnectionsPerAddressMax = -1
		}
	}),
	"clientPortListenBacklog": noEffect("the system's default counts", "-1"),
	"autopurge.snapRetainCount": number(0, math.MaxInt32, "a number of snapshots", func(p *parser, n int64) {
		p.retain = int(n)
	}),
	"autopurge.purgeInterval": number(math.MinInt32, math.MaxInt32, "a number of hours, 0 being never", func(p *parser, n int64) {
		p.purges = n > 0 // whenever there is a new snapshot, which is when there is something to purge
	}),
	"reconfigEnabled":   truth(func(p *parser, yes bool) { p.Server.ReconfigEnabled = yes }), // clients see another answer, and no more
	"standaloneEnabled": noEffect("this server always stands alone", "true"),
	"dynamicConfigFile": func(_ *parser, s Setting) error {
		return &Error{s, "names a file with the members of an ensemble: " + ensembleAdvice}
	},
	"metricsProvider.className": func(p *parser, s Setting) error {
		p.prometheus = strings.HasSuffix(s.Value, ".PrometheusMetricsProvider")
		if !p.prometheus && !strings.HasSuffix(s.Value, ".DefaultMetricsProvider") && !strings.HasSuffix(s.Value, ".NullMetricsProvider") {
			p.Notes = append(p.Notes, Note{s, "has no effect: metrics are at /metrics of the admin port, for Prometheus"})
		}
		return nil
	},
	"metricsProvider.httpHost":      host(func(p *parser) *string { return &p.metricsHost }),
	"metricsProvider.httpPort":      port(func(p *parser) *string { return &p.metricsPort }),
	"metricsProvider.exportJvmInfo": noEffect("there is no JVM", "false"),
}

// properties are the keys that ZooKeeper hands on to the JVM. Those that are no property of ZooKeeper's
// there, as jute.maxbuffer, ZooKeeper would not even find in its file.
var properties = map[string]rule{
	"maxCnxns": number(0, math.MaxInt32, "a number of connections, 0 being unlimited", func(p *parser, n int64) { p.Server.ConnectionsMax = int(n) }),
	"globalOutstandingLimit": number(1, math.MaxInt32, "a number of requests", func(p *parser, n int64) {
		p.Server.OutstandingAllMax = int(n)
	}),
	"largeRequestMaxBytes": number(1, math.MaxInt32, "a number of bytes", func(p *parser, n int64) { p.Server.LargeRequestBytesMax = int(n) }),
	// Limits that ZooKeeper does not have. It takes their keys for properties that nothing reads, so the file can still start it.
	"lockkeeper.answerBytesMax": number(1<<20, math.MaxInt32, "a number of bytes", func(p *parser, n int64) { p.Server.AnswerBytesMax = int(n) }),
	"lockkeeper.watchBytesMax":  number(1<<20, math.MaxInt32, "a number of bytes", func(p *parser, n int64) { p.Server.WatchBytesMax = int(n) }),
	"lockkeeper.multiOpsMax":    number(1, math.MaxInt32, "a number of operations", func(p *parser, n int64) { p.Server.MultiOpsMax = int(n) }),
	"lockkeeper.connectRateMax": number(0, math.MaxInt32, "a number of sessions a second, 0 being unlimited", func(p *parser, n int64) {
		p.Server.ConnectRateMax = int(n)
		if n == 0 {
			p.Server.ConnectRateMax = -1
		}
	}),
	"lockkeeper.secure":          truth(func(p *parser, yes bool) { p.Server.Secure, p.SecureAsked = yes, true }),
	"lockkeeper.apachePasswords": truth(func(p *parser, yes bool) { p.Server.ApachePasswords = yes }),
	"preAllocSize":               number(1, math.MaxInt32, "a number of kilobytes", func(p *parser, n int64) { p.Server.PreAllocBytes = n << 10 }),
	"snapCount": number(0, math.MaxInt32, "a number of transactions", func(p *parser, n int64) {
		p.Server.SnapCount = int(max(n, snapCountMin)) // as ZooKeeper does it
	}),
	"snapSizeLimitInKb": number(math.MinInt32, math.MaxInt32, "a number of kilobytes, 0 or less being unlimited", func(p *parser, n int64) {
		p.Server.SnapBytes = unlimited
		if n > 0 {
			p.Server.SnapBytes = n << 10
		}
	}),
	"txnLogSizeLimitInKb": number(math.MinInt32, math.MaxInt32, "a number of kilobytes, 0 or less being unlimited", func(p *parser, n int64) {
		p.Server.LogBytesMax = max(n, 0) << 10
	}),
	"commitLogCount":                     noEffect("there are no followers to keep transactions for"),
	"fsync.warningthresholdms":           milliseconds(1, func(p *parser, d time.Duration) { p.Server.SlowSync = d }),
	"forceSync":                          forceSync,
	"extendedTypesEnabled":               truth(func(p *parser, yes bool) { p.Server.ExtendedTypes = yes }),
	"emulate353TTLNodes":                 noEffect("znodes with a time to live are those of ZooKeeper 3.5.4 and later", "false"),
	"digest.enabled":                     truth(func(p *parser, yes bool) { p.Server.NoDigests = !yes }),
	"closeSessionTxn.enabled":            noEffect("closing transactions always list the ephemerals", "true"),
	"serializeLastProcessedZxid.enabled": noEffect("snapshots always carry the last zxid", "true"),
	"snapshot.trust.empty":               truth(func(p *parser, yes bool) { p.Server.TrustEmpty = yes }),
	"snapshot.compression.method":        noEffect("snapshots are not compressed", ""),
	"enforceQuota":                       truth(func(p *parser, yes bool) { p.Server.EnforceQuota = yes }),
	"4lw.commands.whitelist": func(p *parser, s Setting) error {
		p.Server.Words = nil
		for word := range strings.SplitSeq(s.Value, ",") {
			word = strings.TrimSpace(word)
			if word != "" {
				p.Server.Words = append(p.Server.Words, word)
			}
		}
		return nil
	},

	"admin.enableServer": truth(func(p *parser, yes bool) { p.Admin.Enabled, p.Admin.Asked = yes, true }),
	"admin.serverAddress": func(p *parser, s Setting) error {
		p.Admin.Asked = true
		return host(func(p *parser) *string { return &p.Admin.Host })(p, s)
	},
	"admin.serverPort": func(p *parser, s Setting) error {
		p.Admin.Asked = true
		return port(func(p *parser) *string { return &p.adminPort })(p, s)
	},
	"admin.commandURL": func(p *parser, s Setting) error {
		switch at := strings.TrimRight(s.Value, "/"); {
		case !strings.HasPrefix(at, "/") || at != urlpath.Clean(at) || strings.ContainsAny(at, "{} "):
			return &Error{s, "must be a path like /commands"}
		case at == "/metrics" || at == "/healthz":
			return &Error{s, "must be another path: what is there stays there"}
		}
		p.Admin.CommandPath = s.Value
		return nil
	},
	"admin.idleTimeout":     noEffect("idle connections are closed after 30 s", "30000"),
	"admin.portUnification": required("the admin port speaks HTTP without TLS", "false"),
	"admin.forceHttps":      required("the admin port speaks HTTP without TLS", "false"),
	"admin.needClientAuth":  required("the admin port asks for no identity", "false"),

	"DigestAuthenticationProvider.superDigest": func(p *parser, s Setting) error {
		if user, digest, ok := strings.Cut(s.Value, ":"); !ok || user != "super" || digest == "" {
			return &Error{s, "must be super: and a digest, as ZooKeeper's DigestAuthenticationProvider prints it"}
		}
		p.Server.SuperDigest = s.Value
		return nil
	},
	"DigestAuthenticationProvider.enabled":   required("digests are always known", "true"),
	"DigestAuthenticationProvider.digestAlg": required("digests are ZooKeeper's default", "SHA1"),
	"X509AuthenticationProvider.superUser":   text(func(p *parser) *string { return &p.Server.SuperSubject }),
	"skipACL":                                noEffect("access control lists are always heeded", "no", "false"),
	"enableEagerACLCheck":                    noEffect("there is no leader that a check could come ahead of", "true", "false"),
	"enforce.auth.enabled":                   required("it would let in clients that ZooKeeper refuses", "false"),
	"sessionRequireClientSASLAuth":           required("it would let in clients that ZooKeeper refuses, since it does not speak SASL", "false"),
	"allowSaslFailedClients":                 noEffect("it does not speak SASL"),
	"serverCnxnFactory":                      noEffect("there is but one, and it speaks TLS", "org.apache.zookeeper.server.NettyServerCnxnFactory", "org.apache.zookeeper.server.NIOServerCnxnFactory"),
	"client.portUnification":                 required("clients with TLS and without come by two ports, secureClientPort and clientPort", "false"),
	"readonlymode.enabled":                   noEffect("a server that stands alone has its quorum", "false"),
	"audit.enable":                           truth(func(p *parser, yes bool) { p.Server.NoAudit = !yes }),
	"jute.maxbuffer":                         frameBytes,
	"znode.container.checkIntervalMs":        milliseconds(1, func(p *parser, d time.Duration) { p.Server.ReapInterval = d }),
	"znode.container.maxNeverUsedIntervalMs": milliseconds(0, func(p *parser, d time.Duration) { p.Server.NeverUsed = d }),
	"znode.container.maxPerMinute":           noEffect("the commit loop sets the pace", "10000"),
	"ssl.keyStore.location":                  text(func(p *parser) *string { return &p.TLS.KeyStore.Location }),
	"ssl.keyStore.password":                  text(func(p *parser) *string { return &p.TLS.KeyStore.Password }),
	"ssl.keyStore.passwordPath":              passwordFile,
	"ssl.keyStore.type":                      text(func(p *parser) *string { return &p.TLS.KeyStore.Type }),
	"ssl.trustStore.location":                text(func(p *parser) *string { return &p.TLS.TrustStore.Location }),
	"ssl.trustStore.password":                text(func(p *parser) *string { return &p.TLS.TrustStore.Password }),
	"ssl.trustStore.passwordPath":            noEffect("the certificates of a PEM file need no password"),
	"ssl.trustStore.type":                    text(func(p *parser) *string { return &p.TLS.TrustStore.Type }),
	"ssl.clientAuth":                         clientAuth,
	"ssl.protocol":                           protocol,
	"ssl.enabledProtocols":                   enabledProtocols,
	"ssl.ciphersuites":                       cipherSuites,
	"ssl.hostnameVerification":               noEffect("it concerns clients"),
	"ssl.clientHostnameVerification":         required("the names of clients' hosts are not looked at", "false"),
	"ssl.crl":                                required("it would let in clients whose certificates are revoked", "false"),
	"ssl.ocsp":                               required("it would let in clients whose certificates are revoked", "false"),
	"ssl.authProvider":                       required("certificates are taken as they are", "x509"),
	"ssl.handshakeDetectionTimeoutMillis":    noEffect("a connection has 10 s to ask for a session"),
}

// families are keys that come in any number.
var families = map[string]rule{
	"authProvider.": noEffect("the schemes digest, ip, x509, world and auth are built in",
		"org.apache.zookeeper.server.auth.X509AuthenticationProvider", "org.apache.zookeeper.server.auth.DigestAuthenticationProvider",
		"org.apache.zookeeper.server.auth.IPAuthenticationProvider"),
}

// tuning are keys that concern how ZooKeeper is built inside.
var tuning = []string{
	"maxResponseCacheSize", "maxGetChildrenResponseCacheSize", "largeRequestThreshold",
	"request_throttle_max_requests", "request_throttle_stall_time", "request_throttle_drop_stale", "throttledOpWaitTime",
	"flushDelay", "maxWriteQueuePollTime", "maxBatchSize", "watchManagerName", "outstandingHandshake.limit",
	"commitProcessor.numWorkerThreads", "nio.numSelectorThreads", "nio.numWorkerThreads", "nio.directBufferBytes",
	"netty.server.outstandingHandshake.limit", "netty.advancedFlowControl.enabled", "jvm.pause.monitor",
	"connectionMaxTokens", "connectionTokenFillTime", "connectionTokenFillCount", "connectionFreezeTime",
	"request.timeout", "intBufferStartingSizeBytes",
}

// passwordFile takes the path of a file that holds the password of the key store.
func passwordFile(p *parser, s Setting) error {
	if info, err := os.Stat(s.Value); err == nil && !info.Mode().IsRegular() { // a pipe would keep us waiting
		return &Error{s, "is not a regular file"}
	}
	password, err := os.ReadFile(s.Value)
	if err != nil {
		return &Error{s, err.Error()}
	}
	p.TLS.KeyStore.Password = strings.TrimRight(string(password), "\r\n")
	return nil
}

// frameBytes takes the size of the largest request. What changes something is bounded by the log, too.
func frameBytes(p *parser, s Setting) error {
	if err := hexNumber(1<<10, 1<<30, "a number of bytes", func(p *parser, n int64) { p.Server.FrameBytesMax = int(n) })(p, s); err != nil {
		return err
	}
	if p.Server.FrameBytesMax > store.TxnBytesMax {
		p.Notes = append(p.Notes, Note{s, fmt.Sprintf("a change of more than %d bytes is refused all the same: a log that holds one could not be read", store.TxnBytesMax)})
	}
	return nil
}

func clientAuth(p *parser, s Setting) error {
	switch v := strings.ToLower(s.Value); v {
	case tlsconf.ClientAuthNeed, tlsconf.ClientAuthWant, tlsconf.ClientAuthNone:
		p.TLS.ClientAuth = v
		return nil
	}
	return &Error{s, fmt.Sprintf("must be %s, %s or %s", tlsconf.ClientAuthNeed, tlsconf.ClientAuthWant, tlsconf.ClientAuthNone)}
}
