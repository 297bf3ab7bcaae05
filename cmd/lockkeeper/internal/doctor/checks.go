package doctor

// A Check is a kind of finding.
type Check struct {
	Name string
	What string // what is found
}

// A Group is the checks that look at the same thing.
type Group struct {
	Title  string
	Checks []Check
}

// Checks lists all kinds of findings.
var Checks = []Group{
	{"Over the network, with srvr, mntr, conf or the admin port, and one session", []Check{
		{"unreachable", "a server that does not answer"},
		{"serving", "a server that runs and serves no requests, or only reads"},
		{"session", "servers that answer and give no session"},
		{"standalone", "a single server"},
		{"separate", "a server that stands alone beside others"},
		{"leader", "an ensemble without a leader"},
		{"leaders", "more than one leader"},
		{"sync", "followers that are not in sync with the leader"},
		{"members", "servers with different server.N lines"},
		{"size", "fewer than three voting members, or an even number"},
		{"list", "members that the list of servers does not name"},
		{"stranger", "a server of the list that is no member"},
		{"twice", "a member that the list names twice"},
		{"znodes", "a server with far fewer znodes than the others"},
		{"epoch", "a server that has not followed since the last election"},
		{"versions", "servers of different versions"},
		{"latency", "slow requests"},
		{"outstanding", "requests that wait"},
		{"fsync", "slow syncs of the transaction log"},
		{"snapshot", "snapshots that take long to write"},
		{"initlimit", "initLimit × tickTime too short for the time that a follower takes to load"},
		{"descriptors", "file descriptors that run out"},
		{"timeouts", "servers that grant different session timeouts"},
		{"words", "a server that refuses mntr and conf, without an admin port"},
		{"open", "a root that any client may change"},
		{"reconfig", "members that any client could replace"},
		{"noacl", "skipACL"},
		{"admin", "an admin port that the network reaches"},
		{"plain", "connections without TLS"},
		{"trustempty", "snapshot.trust.empty"},
		{"maxbuffer", "servers with different jute.maxbuffer"},
	}},
	{"With --deep, by a walk of the tree", []Check{
		{"large", "znodes whose data comes near jute.maxbuffer"},
		{"wide", "znodes with so many children that they are hard or impossible to list"},
		{"deep", "parts of the tree that the walk has left out"},
	}},
	{"With --config, on the machine of a member, beside size, members, admin, reconfig, noacl, trustempty and maxbuffer", []Check{
		{"config", "what zoo.cfg names and is missing, and lines that Apache ZooKeeper refuses"},
		{"myid", "a myid that is missing, no number, not listed, or not from 1 to 255"},
		{"limits", "several servers without initLimit or syncLimit"},
		{"grow", "one server that cannot grow by reconfig"},
		{"autopurge", "snapshots and logs that are never deleted"},
		{"disk", "a transaction log on the disk of the snapshots"},
		{"heap", "a heap as large as the memory"},
		{"swap", "a server that is swapped out, or may be"},
	}},
}
