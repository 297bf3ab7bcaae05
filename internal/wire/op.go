package wire

import "fmt"

// An Op is the type of a request.
type Op int32

// The request types of the protocol, and those that only occur in transaction logs.
const (
	OpError            Op = -1 // in multi results and in the log: a failed operation
	OpCreate           Op = 1
	OpDelete           Op = 2
	OpExists           Op = 3
	OpGetData          Op = 4
	OpSetData          Op = 5
	OpGetACL           Op = 6
	OpSetACL           Op = 7
	OpGetChildren      Op = 8
	OpSync             Op = 9
	OpPing             Op = 11
	OpGetChildren2     Op = 12
	OpCheck            Op = 13 // only inside a multi
	OpMulti            Op = 14
	OpCreate2          Op = 15
	OpReconfig         Op = 16
	OpCheckWatches     Op = 17
	OpRemoveWatches    Op = 18
	OpCreateContainer  Op = 19
	OpDeleteContainer  Op = 20 // only from the server's own reaper
	OpCreateTTL        Op = 21
	OpMultiRead        Op = 22
	OpAuth             Op = 100
	OpSetWatches       Op = 101
	OpSASL             Op = 102
	OpGetEphemerals    Op = 103
	OpAllChildrenCount Op = 104
	OpSetWatches2      Op = 105
	OpAddWatch         Op = 106
	OpWhoAmI           Op = 107
	OpCreateSession    Op = -10 // only in the log
	OpCloseSession     Op = -11
)

var opNames = map[Op]string{
	OpError: "error", OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "get",
	OpSetData: "set", OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "children",
	OpSync: "sync", OpPing: "ping", OpGetChildren2: "children", OpCheck: "check", OpMulti: "multi",
	OpCreate2: "create", OpReconfig: "reconfig", OpCheckWatches: "checkWatches",
	OpRemoveWatches: "removeWatches", OpCreateContainer: "create container",
	OpDeleteContainer: "deleteContainer", OpCreateTTL: "create with TTL", OpMultiRead: "multiRead",
	OpAuth: "auth", OpSetWatches: "setWatches", OpSASL: "sasl", OpGetEphemerals: "getEphemerals",
	OpAllChildrenCount: "getAllChildrenNumber", OpSetWatches2: "setWatches2",
	OpAddWatch: "addWatch", OpWhoAmI: "whoAmI", OpCreateSession: "createSession",
	OpCloseSession: "closeSession",
}

func (op Op) String() string {
	if s, ok := opNames[op]; ok {
		return s
	}
	return fmt.Sprintf("Op(%d)", int32(op))
}

// The xids of messages that are not ordinary requests.
const (
	XidEvent      int32 = -1 // server to client: a watch event
	XidPing       int32 = -2
	XidAuth       int32 = -4
	XidSetWatches int32 = -8
)
