// Package config is typed configuration: a Go value that follows znodes.
//
//	type Limits struct { Rate int `json:"rate"` }
//	v, err := config.Open(ctx, keeper, []string{"/config/orders"}, config.Options[Limits]{
//		Default:  Limits{Rate: 10},
//		Optional: true, // as long as nothing is stored, Default alone is in force
//	})
//	…
//	limit := v.Get().Rate // no request, no lock
//
// # Guarantees
//
//   - A value that cannot be decoded, or that Options.Validate refuses, never comes into force: the last good value stays,
//     and State says what is wrong, with path and version.
//   - A value is replaced as a whole. Get never sees a part of two, and a value once taken does not change: what later data
//     is decoded into is a copy of Options.Default.
//   - Store writes only if the version is the expected one, and resolves a lost answer.
//
// # Formats
//
// The data of a znode is JSON, or whatever Options.Decode reads. With Options.Keys, each znode below a layer is one key:
// /config/orders/pool/size is the field "size" of the field "pool", and its data is the value as text. The fields of embedded
// structs are named as in JSON. In a map whose elements have no keys, the rest of the path is one name, with dots: the znode
// /config/orders/weights/www.example.com is the element "www.example.com" of "weights".
//
// Several layers are laid over each other, the most specific first: a field that a layer does not set keeps the value of
// the layers behind it, and of Options.Default. SpringLayers names those of Spring Cloud Zookeeper. A layer whose znode has no
// data counts as absent: it may be there only because something below it is.
//
// Store also writes the name of the writer into the znode _writer below the znode, in the same transaction, so it needs the permission to
// create there. What other programs write has no name of a writer. Names that begin with "_" are no keys.
//
// # Limits
//
// Layers are cached with all that is below them (package cache), within its default limits: what is not configuration belongs
// elsewhere. With ZooKeeper 3.6 to 3.8, a one-shot watch of the same session at the path of a layer makes the Value miss changes.
//
// A list in a layer replaces the list of the layers behind it; maps are merged. Of an element that several layers have, JSON takes
// that of the most specific one as a whole, and with Options.Keys each key counts by itself.
package config
