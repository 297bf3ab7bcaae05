package zk

import "fmt"

// A Code is the outcome that a server gives to a request. Every code but OK is an error and can
// be asked for with errors.Is, however far the error has travelled:
//
//	if errors.Is(err, zk.ErrNoNode) { … }
//
// The values are those of the protocol.
type Code int32

// OK is the code of a request that succeeded.
const OK Code = 0

// Codes that a server sends.
const (
	ErrSystem                       Code = -1
	ErrRuntimeInconsistency         Code = -2 // in a failed multi: not tried, because another operation failed
	ErrDataInconsistency            Code = -3
	ErrMarshalling                  Code = -5 // the request could not be decoded
	ErrUnimplemented                Code = -6
	ErrBadArguments                 Code = -8
	ErrUnknownSession               Code = -12
	ErrNewConfigNoQuorum            Code = -13
	ErrReconfigInProgress           Code = -14
	ErrAPI                          Code = -100
	ErrNoNode                       Code = -101
	ErrNoAuth                       Code = -102
	ErrBadVersion                   Code = -103
	ErrNoChildrenForEphemerals      Code = -108
	ErrNodeExists                   Code = -110
	ErrNotEmpty                     Code = -111
	ErrSessionExpired               Code = -112
	ErrInvalidACL                   Code = -114
	ErrAuthFailed                   Code = -115
	ErrSessionMoved                 Code = -118
	ErrNotReadOnly                  Code = -119
	ErrEphemeralOnLocalSession      Code = -120
	ErrNoWatcher                    Code = -121
	ErrReconfigDisabled             Code = -123
	ErrSessionClosedRequireSASLAuth Code = -124
	ErrQuotaExceeded                Code = -125
	ErrThrottled                    Code = -127
)

// Codes that a server never sends: they describe what a client lived through.
const (
	// ErrConnectionLoss is returned when the connection ended before the answer came. What became of the
	// request is unknown.
	ErrConnectionLoss Code = -4
	// ErrClosed is returned after Close: of the session, or of the Keeper, watch, cache or member that was asked.
	ErrClosed Code = -1000
)

var codeTexts = map[Code]string{
	OK:                              "ok",
	ErrSystem:                       "server error",
	ErrRuntimeInconsistency:         "not tried, another operation of the multi failed",
	ErrDataInconsistency:            "data inconsistency on the server",
	ErrConnectionLoss:               "connection lost",
	ErrMarshalling:                  "the server could not decode the request",
	ErrUnimplemented:                "the server does not implement this",
	ErrBadArguments:                 "bad arguments",
	ErrUnknownSession:               "unknown session",
	ErrNewConfigNoQuorum:            "no quorum of the new configuration is connected",
	ErrReconfigInProgress:           "another reconfiguration is in progress",
	ErrAPI:                          "API error",
	ErrNoNode:                       "no such znode",
	ErrNoAuth:                       "not authorised",
	ErrBadVersion:                   "version does not match",
	ErrNoChildrenForEphemerals:      "ephemeral znodes cannot have children",
	ErrNodeExists:                   "znode exists",
	ErrNotEmpty:                     "znode has children",
	ErrSessionExpired:               "session expired",
	ErrInvalidACL:                   "invalid ACL",
	ErrAuthFailed:                   "authentication failed",
	ErrSessionMoved:                 "session moved to another server",
	ErrNotReadOnly:                  "the server is read-only",
	ErrEphemeralOnLocalSession:      "ephemeral znode on a local session",
	ErrNoWatcher:                    "no such watch",
	ErrReconfigDisabled:             "reconfiguration is disabled",
	ErrSessionClosedRequireSASLAuth: "the server requires authentication (by SASL, or by a scheme that its enforce.auth.schemes names)",
	ErrQuotaExceeded:                "quota exceeded",
	ErrClosed:                       "closed",
	ErrThrottled:                    "throttled by the server",
}

func (c Code) Error() string {
	if s, ok := codeTexts[c]; ok {
		return s
	}
	return fmt.Sprintf("ZooKeeper error %d", int32(c))
}
