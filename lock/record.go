package lock

import (
	"bytes"
	"encoding/json"
)

// A record is the data of a node of ours, as JSON: its owner, and what else others have to know.
type record struct {
	Owner
	ID attemptID `json:"id,omitempty"` // of the attempt, where the node's name does not have it

	// For detectors of cycles in which contenders wait for each other.
	Under   []string `json:"under,omitempty"`   // stems (see attemptID.stem) of what the owner holds if this claim waits
	Yields  bool     `json:"yields,omitempty"`  // if it waits it has a detector, and gives up if it is the youngest of a cycle
	Passing bool     `json:"passing,omitempty"` // it is not going to wait: it is granted at once or goes

	// Revoke says that somebody asks the owner to give the lock up. Whoever asks adds it to the fields that are
	// there, and keeps those that it does not know.
	Revoke bool `json:"revoke,omitempty"`
}

func (r record) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil { // a year beyond 9999
		return nil
	}
	return b
}

// revokeField is the name of record.Revoke.
const revokeField = "revoke"

// revokeMessage is what Curator's Revoker makes of the data, and what its holders listen for.
const revokeMessage = "__REVOKE__"

// revoked reports whether data asks its node's owner to give up, in our words or in Curator's.
func revoked(data []byte) bool {
	if string(data) == revokeMessage {
		return true
	}
	var r record
	return bytes.Contains(data, []byte(revokeField)) && json.Unmarshal(data, &r) == nil && r.Revoke
}

// revocation returns what to make of a node's data to ask its owner to give up: of data that is ours the
// same with a word added, and of anything else what Curator's holders understand.
func revocation(data []byte) []byte {
	var fields map[string]json.RawMessage
	if _, ours := parseOwner(data); !ours || json.Unmarshal(data, &fields) != nil {
		return []byte(revokeMessage)
	}
	fields[revokeField] = json.RawMessage("true")
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // it has just been parsed
	}
	return b
}
