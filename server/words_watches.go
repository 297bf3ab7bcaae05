package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (s *Server) wordWchs(b *strings.Builder) {
	connections, paths, watches := s.WatchSummary()
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", connections, paths, watches)
}

func (s *Server) wordWchp(b *strings.Builder) {
	byPath := s.WatchesByPath()
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		fmt.Fprintf(b, "%s\n", path)
		for _, id := range byPath[path] {
			fmt.Fprintf(b, "\t%s\n", sessionID(id))
		}
	}
	b.WriteByte('\n')
}

func (s *Server) wordWchc(b *strings.Builder) {
	bySession := s.WatchesBySession()
	for _, id := range slices.Sorted(maps.Keys(bySession)) {
		fmt.Fprintf(b, "%s\n", sessionID(id))
		for _, path := range bySession[id] {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	b.WriteByte('\n')
}
