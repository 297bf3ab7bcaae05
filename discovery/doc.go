// Package discovery is naming: instances of services register, and clients find them.
//
//	r, err := discovery.Register(ctx, keeper, "/services", discovery.Instance{Name: "orders", Address: "10.0.0.7", Port: 8080}, discovery.RegisterOptions{})
//	…
//	d, err := discovery.Open(ctx, keeper, "/services", discovery.Options{})
//	client := &http.Client{Transport: d.Transport(nil)}
//	resp, err := client.Get("http://orders/list")
//
// # Guarantees
//
//   - A registered instance has one znode. It comes back after an expiry and when another client deletes it, and after
//     Registration.Close has returned nil it is gone.
//   - Resolving asks the server nothing: a Directory keeps all services in memory; see package cache for what it promises.
//   - An instance that cannot be read is kept apart and reported with its path (Directory.Malformed); the others stay
//     usable.
//
// # Formats
//
// BASE/NAME/ID with the JSON of Curator's x-discovery, byte for byte, so instances of both sides find each other; Spring
// Cloud Zookeeper writes the same, with metadata in the payload (SpringMetadata). The payload is null unless the caller
// sets one, because readers of another payload type fail. BASE/NAME is made as a container, as Curator does; it and what
// is above it get RegisterOptions.ParentACL. With Options.Layout, Dubbo's providers can be read: BASE/INTERFACE/providers/URL.
//
// # Limits
//
// Names and ids are names of znodes, so they have no slash. Register writes dynamic instances, which go with the session;
// Publish writes static ones, which stay. Both refuse an instance without an address. One without a port is registered, as in
// Curator, and cannot be dialled. A Directory holds all services below its base. With ZooKeeper 3.6 to
// 3.8, a one-shot watch of the same session at the base makes it miss changes.
package discovery
