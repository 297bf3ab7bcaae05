package zoocfg

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ensembleAdvice says what to do with the configuration of an ensemble.
const ensembleAdvice = "this server stands alone. Run Apache ZooKeeper on each of the machines with this file and a myid. " +
	"The data of this server can be its beginning: stop the server, and give each member a copy before any of them starts " +
	"(lockkeeper ensemble grow --from DIR, its dataDir)"

// isServer reports whether key is server.N.
func isServer(key string) bool {
	n, ok := strings.CutPrefix(key, "server.")
	_, err := strconv.Atoi(n)
	return ok && err == nil
}

// concernsEnsemble reports whether a key concerns what servers of an ensemble do among themselves.
// ZooKeeper itself passes over it when it stands alone.
func concernsEnsemble(key string) bool {
	return slices.Contains(ensembleKeys, key) || slices.ContainsFunc(ensemblePrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

var ensembleKeys = []string{
	"initLimit", "syncLimit", "electionAlg", "peerType", "leaderServes", "cnxTimeout", "connectToLearnerMasterLimit",
	"observerMasterPort", "quorumListenOnAllIPs", "sslQuorum", "portUnification", "syncEnabled",
	"localSessionsEnabled", "localSessionsUpgradingEnabled", "configVersion", "leader.maxConcurrentSnapSyncs",
}

var ensemblePrefixes = []string{"group.", "weight.", "quorum.", "ssl.quorum.", "observer.", "learner.", "multiAddress.", "electionPort"}

// ensemble refuses an ensemble. A single server line is that of a server alone; the port for clients
// that it may name counts unless clientPort does.
func (p *parser) ensemble() error {
	if len(p.servers) > 1 {
		var names []string
		for _, s := range p.servers {
			names = append(names, s.Key)
		}
		return fmt.Errorf("%s: %s: an ensemble of %d servers: %s", p.servers[0].Where, strings.Join(names, ", "), len(names), ensembleAdvice)
	}
	for _, s := range p.servers {
		text := "is a line of an ensemble, and is passed over"
		if _, clients, ok := strings.Cut(s.Value, ";"); ok && p.port == "" {
			clients, _, _ = strings.Cut(clients, ";") // the secure one
			host, number := "", clients
			if i := strings.LastIndexByte(clients, ':'); i >= 0 {
				host, number = strings.Trim(clients[:i], "[]"), clients[i+1:]
			}
			if err := port(func(p *parser) *string { return &p.port })(p, Setting{s.Key, number, s.Where}); err != nil {
				return err
			}
			if p.host == "" {
				p.host = host
			}
			text += ", but for the port of clients"
		}
		p.Notes = append(p.Notes, Note{s, text})
	}
	return nil
}
