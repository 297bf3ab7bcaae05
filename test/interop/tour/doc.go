// Package tour runs the commands of docs/zookeeper-tour.md.
package tour
