// Package model explores a small world in which one session holds a lock, step by step and in all orders: the holder with the
// lease of package internal/lease, the follower that it is connected to, and the leader with its table of sessions. The lock
// has passed on as soon as the leader has expired the session, so a state in which the session has expired and the hold is
// still good is one with two holders.
//
// Time goes in units; a session timeout has twelve. In each unit any of these may happen, in any order: the client sends a
// request, a server hears it, the answer arrives, the process stops or goes on, the follower is cut off from the leader, the
// client from the follower, another leader is elected, the client connects again and is granted another timeout. A follower
// tells the leader every half tick that it has heard of the session; what it forwards tells the leader nothing. The only
// promise is that a client that runs and can send sends its heartbeats in time.
//
// The rules of former versions are kept as mutations: the model has to find two holders with each of them.
package model
