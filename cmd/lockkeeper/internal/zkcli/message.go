package zkcli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// before are zkCli's words for codes whose path follows.
var before = map[zk.Code]string{
	zk.ErrNoNode:                  "Node does not exist: ",
	zk.ErrNoChildrenForEphemerals: "Ephemerals cannot have children: ",
	zk.ErrNodeExists:              "Node already exists: ",
	zk.ErrNotEmpty:                "Node not empty: ",
	zk.ErrNotReadOnly:             "Not a read-only call: ",
	zk.ErrInvalidACL:              "Acl is not valid : ",
	zk.ErrNoAuth:                  "Insufficient permission : ",
	zk.ErrBadArguments:            "Arguments are not valid : ",
	zk.ErrBadVersion:              "version No is not valid : ",
}

// names are Java's for other codes.
var names = map[zk.Code]string{
	zk.ErrConnectionLoss: "ConnectionLoss", zk.ErrSessionExpired: "Session expired", zk.ErrAuthFailed: "AuthFailed", zk.ErrUnimplemented: "Unimplemented",
	zk.ErrQuotaExceeded: "Quota has exceeded", zk.ErrNoWatcher: "No such watcher", zk.ErrReconfigDisabled: "Reconfig is disabled",
	zk.ErrSystem: "SystemError", zk.ErrRuntimeInconsistency: "RuntimeInconsistency", zk.ErrDataInconsistency: "DataInconsistency",
	zk.ErrMarshalling: "MarshallingError", zk.ErrThrottled: "Op throttled due to high load", zk.ErrSessionMoved: "Session moved",
}

// message says in zkCli's words what is wrong.
func message(err error) string {
	var path *zk.PathError
	if errors.As(err, &path) {
		return pathMessage(path)
	}
	var op *client.OpError
	var code zk.Code
	if !errors.As(err, &code) {
		return err.Error()
	}
	at := ""
	if errors.As(err, &op) {
		at = op.Path
	}
	if words := before[code]; words != "" {
		return words + at
	}
	name := names[code]
	if name == "" {
		name = code.Error()
	}
	if at == "" {
		return "KeeperErrorCode = " + name
	}
	return "KeeperErrorCode = " + name + " for " + at
}

// pathMessage says what ZooKeeper's PathUtils says of a path.
func pathMessage(e *zk.PathError) string {
	switch {
	case e.Path == "":
		return "Path length must be > 0"
	case e.Path[0] != '/':
		return "Path must start with / character"
	case len(e.Path) > 1 && strings.HasSuffix(e.Path, "/"):
		return "Path must not end with / character"
	}
	at := 1
	for _, part := range strings.Split(e.Path, "/")[1:] {
		switch part {
		case "":
			return "Invalid path string \"" + e.Path + "\" caused by empty node name specified @" + strconv.Itoa(at)
		case ".", "..":
			return "Invalid path string \"" + e.Path + "\" caused by relative paths not allowed @" + strconv.Itoa(at+len(part)-1)
		}
		at += len(part) + 1
	}
	return e.Error()
}
