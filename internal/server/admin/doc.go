// Package admin is the server's HTTP port: how it does, for people, probes and monitoring.
//
//	/commands          a list of the commands
//	/commands/<name>   one of them, as JSON, as ZooKeeper's AdminServer answers it
//	/metrics           all metrics, as Prometheus reads them
//	/healthz           200 if the server serves and its disk works, else 503 and the reason
//
// The JSON has ZooKeeper's fields in ZooKeeper's order and layout, because there are scripts that
// look for lines in it. What has no meaning here is missing rather than made up: the trace mask,
// the properties of a JVM, the sizes of answers. As with ZooKeeper, commands are answered with 200
// whether there is such a command or not; the field "error" says which.
//
// Metrics have the names that ZooKeeper's PrometheusMetricsProvider gives them where the meaning is
// the same, so that its dashboards and alerts work; package server says which they are. The text
// format is written by hand: the metrics have no labels but those of the format itself, it takes a
// page, and the server's packages need nothing but Go.
//
// The port asks for no credentials, and connection_stat_reset and stat_reset change counters. So
// AddressDefault is loopback; a listener at another address opens all of this to other machines.
package admin
