// Package bridge has what package lock does with the sessions of package client and other packages cannot. Package client
// provides the functions when it is initialized, so none of this is part of its public face.
package bridge

// Notify puts a token into told when a *client.Watch has fired or a *client.Pending is completed, at once if it is already.
// If told is full it puts none, so a channel with room for one token serves for any number of sources. A source tells one
// channel, the last one. A watch that is cancelled or was never set tells nothing.
var Notify func(source any, told chan<- struct{})
