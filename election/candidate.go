package election

import (
	"encoding/json"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// A Candidate is a contender in an election. The zero value stands for none.
type Candidate struct {
	Node    string     // path of its znode; empty if there is none
	Session int64      // that owns the znode
	Token   int64      // creation zxid of the znode: the fencing token of its term
	Since   time.Time  // when it joined the queue, by the server's clock; not when it began to lead
	ID      string     // what it calls itself (Options.ID)
	Owner   lock.Owner // which process it is; zero for those of Curator, and with Options.IDOnly
	Data    []byte     // what else it says (Options.Data)
}

// record is what a candidate's znode says: an owner as with every lock, and more.
type record struct {
	lock.Owner
	ID   string `json:"id,omitempty"`
	Data []byte `json:"data,omitempty"`
}

// candidateOf returns the contender as a candidate. Data that is not our JSON is an ID, as with Curator.
func candidateOf(c lock.Contender) Candidate {
	var r record
	if len(c.Data) == 0 || c.Data[0] != '{' || json.Unmarshal(c.Data, &r) != nil || r.PID == 0 {
		r = record{ID: string(c.Data)}
	}
	return Candidate{Node: c.Node, Session: c.Session, Token: c.Token, Since: c.Since, ID: r.ID, Owner: r.Owner, Data: r.Data}
}
