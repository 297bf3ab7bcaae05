package queue

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Record is the data of a node of ours, as JSON: its owner, and what else others have to know.
type Record struct {
	Owner
	ID ID `json:"id,omitempty"` // of the attempt, where the node's name does not have it

	// For detectors of cycles in which contenders wait for each other.
	Under   []string `json:"under,omitempty"`   // ids (see ID.HoldID) of what the owner holds if this claim waits
	Yields  bool     `json:"yields,omitempty"`  // if it waits it has a detector, and gives up if it is the youngest of a cycle
	Passing bool     `json:"passing,omitempty"` // it is not going to wait: it is granted at once or goes

	// Revoke says that the owner is asked to give the lock up. The request adds it to the fields that are there, and keeps unknown ones.
	Revoke bool `json:"revoke,omitempty"`
}

// Encode returns the record as the data of a node.
func (r Record) Encode() []byte {
	b, _ := json.Marshal(r) // nothing in it can fail
	return b
}

// revokeField is the name of Record.Revoke.
const revokeField = "revoke"

// RevokeMessage is what Curator's Revoker makes of the data, and what its holders listen for.
const RevokeMessage = "__REVOKE__"

// Revoked reports whether data asks its node's owner to give up, in our words or in Curator's.
func Revoked(data []byte) bool {
	return string(data) == RevokeMessage || bytes.Contains(data, []byte(revokeField)) && ParseRecord(data).Revoke
}

// Revocation returns what to make of a node's data to ask its owner to give up: of data that is ours the
// same with a word added, and of anything else what Curator's holders understand.
func Revocation(data []byte) []byte {
	var fields map[string]json.RawMessage
	if ParseRecord(data).Owner == (Owner{}) || json.Unmarshal(data, &fields) != nil {
		return []byte(RevokeMessage)
	}
	fields[revokeField] = json.RawMessage("true")
	b, _ := json.Marshal(fields) // nothing in it can fail: it has just been parsed
	return b
}

// Holds returns the hold ids of what the owner holds, as the data of a claim's node names them; other clients name none.
func (r Record) Holds() []string {
	ids := r.Under[:min(len(r.Under), UnderMax)]
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return zk.ValidatePath(id) != nil || zk.Parent(id) == "/"
	})
}

// ParseRecord reads the data of a claim's node; what other clients write gives an empty record.
func ParseRecord(data []byte) Record {
	var r Record
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &r) != nil {
		return Record{}
	}
	return r
}

// An Owner is what a contender's znode says, in JSON, about the process that made it.
type Owner struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Space   string `json:"space,omitempty"` // says in which boot and process namespace PID counts; empty where that is unknown
	User    string `json:"user,omitempty"`  // that the process belongs to; only the command says it
	Program string `json:"program,omitempty"`
	Label   string `json:"label,omitempty"` // Options.Label
}

// UnderMax is how many holds the node of a waiter names at most, the newest first.
const UnderMax = 32
