package doctor

import (
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// Names of properties of the JVM.
const (
	propertyJute         = "jute.maxbuffer"
	propertySkipACL      = "zookeeper.skipACL"
	propertyTrustEmpty   = "zookeeper.snapshot.trust.empty"
	propertyAdminAddress = "zookeeper.admin.serverAddress"
)

// skipsACL is the one value that Apache ZooKeeper takes for a yes to skipACL.
const skipsACL = "yes"

// mends of findings that the network and the files both lead to.
const (
	mendSkipACL    = "take skipACL out of zoo.cfg and of the options of the JVM"
	mendTrustEmpty = "take it out after the upgrade that it was for: with it, a server that has lost its snapshots begins with an empty tree, and may lead"
	mendAdmin      = "admin.serverAddress=127.0.0.1 in zoo.cfg, or a firewall, or admin.enableServer=false"
	anyAddress     = "0.0.0.0"
)

// onSockets reports whether the servers listen on sockets of this machine only: then the permissions of their files say which users
// are clients.
func (x *examination) onSockets() bool {
	return !slices.ContainsFunc(x.Servers, func(s Server) bool { return s.Address != "" })
}

// access looks at what clients may change.
func (x *examination) access() {
	if x.SessionErr != nil {
		x.find(Critical, "session", "", "see the servers' logs; clients with the same --servers, TLS files and credentials are no better off", "servers answer, and no session can be used: %v", x.SessionErr)
	}
	for _, a := range x.RootACL {
		if !x.onSockets() && a.Scheme == "world" && a.Perms&(zk.PermWrite|zk.PermCreate|zk.PermDelete|zk.PermAdmin) != 0 {
			x.find(Warning, "open", "", "lockkeeper z create /lockkeeper, which commands need and could not make any more, and then lockkeeper z acl set / world:anyone:r,SCHEME:ID:cdrwa, with an identity of yours", "any client may change the root: %s:%s", a.Scheme, a.ID)
		}
	}
	for _, a := range x.ConfigACL {
		const mend = "lockkeeper z acl set /zookeeper/config world:anyone:r, as super"
		switch {
		case a.Perms&(zk.PermWrite|zk.PermAdmin) == 0:
		case a.Scheme == "world":
			x.find(Warning, "reconfig", "", mend, "any client may write /zookeeper/config: where reconfigEnabled=true, any client can replace the members")
		default:
			x.find(Note, "reconfig", "", mend+", unless it is meant to be so", "%s:%s may write /zookeeper/config, and so replace the members where reconfigEnabled=true", a.Scheme, a.ID)
		}
	}
	if !x.TLS && len(x.alive()) > 0 {
		x.find(Note, "plain", "", "secureClientPort and --tls-ca", "the connections are not encrypted")
	}
}

// admin looks for HTTP ports that the network reaches.
func (x *examination) admin() {
	for _, s := range x.Servers {
		if !s.Admin.answers() {
			continue
		}
		bound, set := s.Properties[propertyAdminAddress]
		switch {
		case s.Admin.Remote:
			x.find(Warning, "admin", s.Name, mendAdmin, "its admin port answers over the network, without a password: %s/commands", s.Admin.URL)
		case s.Properties != nil && (!set || bound == anyAddress):
			x.find(Warning, "admin", s.Name, mendAdmin, "its admin port %s listens on all addresses, without a password: admin.serverAddress is %s", s.Admin.URL, shown(bound))
		}
	}
}

// shown is a value in an evidence.
func shown(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}

// properties looks at what the JVMs were started with.
func (x *examination) properties() {
	limits := map[string][]string{}
	for _, s := range x.Servers {
		if s.Properties == nil {
			continue
		}
		if v := s.Properties[propertySkipACL]; v == skipsACL {
			x.find(Warning, "noacl", s.Name, mendSkipACL, "it runs with %s=%s: all clients may do everything, and, where reconfigEnabled=true, replace the members", propertySkipACL, v)
		}
		if v := s.Properties[propertyTrustEmpty]; isOn(v) {
			x.find(Warning, "trustempty", s.Name, mendTrustEmpty, "it runs with %s=%s", propertyTrustEmpty, v)
		}
		limit := shown(s.Properties[propertyJute])
		limits[limit] = append(limits[limit], s.Name)
	}
	if len(limits) < 2 {
		return
	}
	var all []string
	for _, limit := range slices.Sorted(maps.Keys(limits)) {
		all = append(all, limit+" at "+strings.Join(limits[limit], ", "))
	}
	x.find(Warning, "maxbuffer", "", "give all servers and clients the same -Djute.maxbuffer: a follower with less leaves when a larger record comes",
		"jute.maxbuffer is %s", strings.Join(all, "; "))
}
