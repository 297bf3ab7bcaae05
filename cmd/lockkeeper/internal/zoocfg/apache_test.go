package zoocfg

import (
	"strings"
	"testing"
)

// Apache ZooKeeper 3.8 refuses what is refused here and takes the rest, but for members that share a port or a number: it takes them
// and cannot work.
func TestFaults(t *testing.T) {
	const base = "dataDir=/tmp\nclientPort=2181\ninitLimit=10\nsyncLimit=5\n"
	const two = base + "server.1=a:2888:3888\nserver.2=b:2888:3888\n"
	for name, c := range map[string]struct{ text, dynamic, want string }{
		"a server alone":                        {base, "", ""},
		"three members":                         {two + "server.3=127.0.0.1:2888:3888:participant;127.0.0.1:2181", "", ""},
		"of IPv6":                               {two + "server.3=[::1]:2888:3888;[::1]:2181", "", ""},
		"an observer":                           {two + "server.3=c:2888:3888:Observer", "", ""},
		"members on one machine":                {base + "server.1=a:1:2\nserver.2=a:3:4", "", ""},
		"what our server refuses":               {base + "ssl.crl=true\nadmin.forceHttps=true\nserver.1=a:1:2\nserver.2=b:1:2", "", ""},
		"a property that is no number":          {base + "snapCount=abc\nzookeeper.tickTime=abc", "", ""},
		"what a later line mends":               {base + "tickTime=abc\ntickTime=2000", "", ""},
		"numbers of Java":                       {base + "maxClientCnxns=-1\ntickTime=+7\nsecureClientPort=0", "", ""},
		"members in a file of their own":        {base + "dynamicConfigFile=DYNAMIC", "server.1=a:1:2;2181\nserver.2=b:1:2;2181\n", ""},
		"groups":                                {two + "server.3=c:2888:3888\ngroup.1=1:2\ngroup.2=3:\nweight.1=2", "", ""},
		"a weight of a server alone":            {base + "weight.1=2", "", ""},
		"an observer in a group, with a weight": {two + "server.3=c:2888:3888:observer\ngroup.1=1:2:3\nweight.3=0", "", ""},
		"SASL among members":                    {base + "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=TRUE", "", ""},
		"groups that an oracle replaces":        {two + "weight.1=2\noraclePath=/x", "", ""},
		"a weight and no group":                 {two + "weight.1=2", "", "zoo.cfg:5: server.1=a:2888:3888: it is in no group"},
		"a member in no group":                  {two + "server.3=c:2888:3888\ngroup.1=1:2", "", "zoo.cfg:7: server.3=c:2888:3888: it is in no group, and there are groups or weights: Apache ZooKeeper does not start with it"},
		"a member in two groups":                {two + "group.1=1:2\ngroup.2=2", "", "zoo.cfg:8: group.2=2: member 2 is in group.1 already"},
		"a group of a member that is not there": {two + "group.1=1:2:3", "", "zoo.cfg:7: group.1=1:2:3: there is no member 3 that votes"},
		"an observer in a group":                {two + "server.3=c:2888:3888:observer\ngroup.1=1:2:3", "", "there is no member 3 that votes"},
		"a group of letters":                    {two + "group.1=1:b", "", "zoo.cfg:7: group.1=1:b: \"b\" is no whole number"},
		"a group without a number":              {two + "groups=1:2", "", "\"\" is no whole number"},
		"a weight of letters":                   {two + "group.1=1:2\nweight.1=much", "", "zoo.cfg:8: weight.1=much: \"much\" is no whole number"},
		"groups in the file of members":         {base + "dynamicConfigFile=DYNAMIC", "server.1=a:1:2;2181\nserver.2=b:1:2;2181\ngroup.1=1\n", "dynamic:2: server.2=b:1:2;2181: it is in no group"},
		"SASL that is required alone":           {base + "quorum.auth.serverRequireSasl=true", "", "zoo.cfg:5: quorum.auth.serverRequireSasl=true: needs quorum.auth.enableSasl=true"},
		"SASL of learners that is not enabled":  {base + "quorum.auth.learnerRequireSasl=true", "", "needs quorum.auth.enableSasl=true"},
		"SASL that learners lack":               {base + "quorum.auth.enableSasl=true\nquorum.auth.serverRequireSasl=true", "", "needs quorum.auth.learnerRequireSasl=true"},
		"a word":                                {base + "initLimit=abc", "", "zoo.cfg:5: initLimit=abc: is no whole number of 32 bits: Apache ZooKeeper does not start with it"},
		"a unit":                                {base + "tickTime=2s", "", "zoo.cfg:5: tickTime=2s: must be a whole number of milliseconds: Apache ZooKeeper does not start with it"},
		"a key alone":                           {base + "tickTime", "", "zoo.cfg:5: tickTime=: must be a whole number"},
		"no time":                               {base + "tickTime=0", "", "must be a whole number"},
		"time that runs back":                   {base + "tickTime=-1", "", "is longer than"},
		"a tick that overflows":                 {base + "tickTime=200000000", "", "is longer than"},
		"a port of letters":                     {base + "clientPort=abc", "", "zoo.cfg:5: clientPort=abc: is no port"},
		"a port beyond":                         {base + "clientPort=65536", "", "is no port"},
		"hours":                                 {base + "autopurge.purgeInterval=24h", "", "is no whole number"},
		"too much":                              {base + "maxSessionTimeout=3000000000", "", "is no whole number"},
		"a yes":                                 {base + "reconfigEnabled=yes", "", "must be true or false"},
		"an old election":                       {base + "electionAlg=1", "", "must be 3"},
		"a role":                                {base + "peerType=voter", "", "must be observer or participant"},
		"the least above the most":              {base + "minSessionTimeout=99999", "", "zoo.cfg:5: minSessionTimeout=99999: minSessionTimeout of 99999 ms is longer than maxSessionTimeout of 60000 ms"},
		"the most below the least":              {base + "maxSessionTimeout=100", "", "zoo.cfg:5: maxSessionTimeout=100: minSessionTimeout of 6000 ms is longer"},
		"an address without a port":             {base + "secureClientPortAddress=127.0.0.1", "", "secureClientPort is not set"},
		"no member":                             {two + "server.3=foo", "", "zoo.cfg:7: server.3=foo: must be HOST:QUORUMPORT:ELECTIONPORT"},
		"one port":                              {two + "server.3=c:2888", "", "must be HOST"},
		"another word":                          {two + "server.3=c:2888:3888:voter", "", "must be HOST"},
		"five parts":                            {two + "server.3=c:2888:3888:observer:1", "", "must be HOST"},
		"a blank":                               {two + "server.3=c: 2888:3888", "", "must be HOST"},
		"a client port of letters":              {two + "server.3=c:2888:3888;x", "", "must be HOST"},
		"the same port twice":                   {two + "server.3=c:2888:2888", "", "the two ports must be different"},
		"a member with a letter":                {two + "server.x=c:2888:3888", "", `zoo.cfg:7: server.x=c:2888:3888: "x" is no number of a member`},
		"the same address":                      {two + "server.3=B:2888:3888", "", "zoo.cfg:7: server.3=B:2888:3888: it has b:2888, as server.2 has in zoo.cfg:6"},
		"another port of another":               {two + "server.3=b:1:2888", "", "it has b:2888"},
		"another member of the same number":     {two + "server.2=c:2888:3888", "", "zoo.cfg:6: server.2=b:2888:3888: has no effect: zoo.cfg:7 has another server.2"},
		"observers alone":                       {base + "server.1=a:1:2:observer", "", "an observer needs"},
		"an observer of a server alone":         {base + "server.1=a:1:2\nserver.2=b:1:2:observer", "", "an observer needs"},
		"no members, and not alone":             {base + "standaloneEnabled=false", "", "zoo.cfg:5: standaloneEnabled=false: there is no member that votes"},
		"members in both files":                 {two + "dynamicConfigFile=DYNAMIC", "server.1=a:1:2\nserver.2=b:1:2\n", "must be in the file that dynamicConfigFile names"},
		"what is not of the members, in theirs": {base + "dynamicConfigFile=DYNAMIC", "server.1=a:1:2\nserver.2=b:1:2\nversion=1\n", "dynamic:3: version=1: must not be in the file"},
		"a fault in the file of members":        {base + "dynamicConfigFile=DYNAMIC", "server.1=a:1:2\nserver.2=b:1", "dynamic:2: server.2=b:1: must be HOST"},
		"a file of members that is not known":   {base + "standaloneEnabled=false\ndynamicConfigFile=DYNAMIC", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var read [2][]Setting
			for i, text := range []string{c.text, c.dynamic} {
				var err error
				if read[i], err = Read([]string{"zoo.cfg", "dynamic"}[i], strings.NewReader(text)); err != nil {
					t.Fatal(err)
				}
			}
			found := Faults(read[0], read[1])
			if len(found) == 0 && c.want != "" || len(found) > 0 && c.want == "" {
				t.Fatalf("found %v, want %q", found, c.want)
			}
			if c.want != "" && !strings.Contains(found[0].Error(), c.want) {
				t.Errorf("found %v, want %q", found[0], c.want)
			}
		})
	}
}
