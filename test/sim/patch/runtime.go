package patch

import _ "embed"

//go:embed runtime.go.txt
var runtimeSource string

// Server makes the leader treat what followers forward as Apache ZooKeeper's does: such a request touches no session, and only
// the relay twice a tick, a ping here, does (LearnerHandler, LeaderSessionTracker).
var Server = []Patch{
	{File: "server/conn.go",
		Old: "	if op == wire.OpAuth || op == wire.OpSASL {\n		return true\n	}\n	s := c.s\n",
		New: "	if remote := c.nc.RemoteAddr().String(); op == wire.OpAuth || op == wire.OpSASL ||\n		op != wire.OpPing && len(remote) > 8 && remote[:8] == \"follower\" {\n		return true\n	}\n	s := c.s\n"},
	// Attempts of one process share a random prefix. Here one process plays many seeds, one after the other, and the first of
	// them must not have one random number more than the others.
	{File: "lock/attempt.go",
		Old: "return randomDigits(queue.IDDigits / 2) })",
		New: "return hex.EncodeToString(make([]byte, queue.IDDigits/4)) })"},
}

// Runtime makes Go's runtime do what package rt asks of it: within bubbles, chance comes from a seed; time
// slices do not end by the clock of the machine; and groups of goroutines can be stopped. It is written for
// Go 1.26.
var Runtime = []Patch{
	{Go: true, File: "runtime/sim.go", New: runtimeSource},

	// Chance. Whatever is set up before the first bubble is the same in every process. Making a map takes none:
	// some are made once in a process, by the first caller, as caches are.
	{Go: true, File: "runtime/rand.go",
		Old: "	globalRand.state.Init(*seed)\n",
		New: "	*seed = [32]byte{1}\n	globalRand.state.Init(*seed)\n"},
	{Go: true, File: "runtime/rand.go",
		Old: "	mp := getg().m\n	c := &mp.chacha8\n",
		New: "	if simHere() {\n		return 1\n	}\n	mp := getg().m\n	c := &mp.chacha8\n"},
	{Go: true, File: "runtime/rand.go",
		Old: "func maps_rand() uint64 {\n	return rand()",
		New: "func maps_rand() uint64 {\n	return simChance()"},
	{Go: true, File: "internal/runtime/maps/map.go", All: true,
		Old: "m.seed = uintptr(rand())",
		New: "m.seed = 1"},
	{Go: true, File: "math/rand/v2/rand.go",
		Old: "//go:linkname runtime_rand runtime.rand\n",
		New: "//go:linkname runtime_rand runtime.simChance\n"},
	{Go: true, File: "runtime/select.go",
		Old: "		j := cheaprandn(uint32(norder + 1))\n",
		New: "		j := cheaprandn(uint32(norder + 1))\n		if simHere() {\n			j = uint32(simRand() % uint64(norder+1))\n		}\n"},
	{Go: true, File: "runtime/time.go",
		Old: "			t.rand = cheaprand()\n",
		New: "			t.rand = uint32(simRand())\n"},

	// The order in which contexts are cancelled. A context keeps its children in a map by address.
	{Go: true, File: "context/context.go",
		Old: "	\"sync/atomic\"\n	\"time\"\n)\n",
		New: "	\"sync/atomic\"\n	\"time\"\n	_ \"unsafe\"\n)\n\n//go:linkname simChance runtime.simChance\nfunc simChance() uint64\n"},
	{Go: true, File: "context/context.go",
		Old: "	children map[canceler]struct{} // set",
		New: "	children map[canceler]uint64 // set"},
	{Go: true, File: "context/context.go",
		Old: "p.children = make(map[canceler]struct{})",
		New: "p.children = make(map[canceler]uint64)"},
	{Go: true, File: "context/context.go",
		Old: "p.children[child] = struct{}{}",
		New: "p.children[child] = simChance()"},
	{Go: true, File: "context/context.go",
		Old: "	for child := range c.children {\n",
		New: "	for len(c.children) > 0 {\n		var child canceler\n		for other, n := range c.children {\n			if child == nil || n < c.children[child] {\n				child = other\n			}\n		}\n		delete(c.children, child)\n"},

	// What is pooled stays pooled: making some of it anew would take chance too.
	{Go: true, File: "runtime/mgc.go",
		Old: "func clearpools() {\n",
		New: "func clearpools() {\n	if sim.seeded {\n		return\n	}\n"},

	// The order of goroutines that are ready.
	{Go: true, File: "runtime/proc.go",
		Old: "	if randomizeScheduler && next && randn(2) == 0 {\n",
		New: "	if next && gp.bubble != nil && simRand()&1 == 0 {\n"},
	{Go: true, File: "runtime/proc.go",
		Old: "const forcePreemptNS = 10 * 1000 * 1000 // 10ms",
		New: "const forcePreemptNS = 3600 * 1000 * 1000 * 1000"},

	// Groups. A goroutine that waits for a mutex counts as idle, because its owner may have been stopped.
	{Go: true, File: "runtime/runtime2.go",
		Old: "	bubble  *synctestBubble\n",
		New: "	bubble  *synctestBubble\n	simGroup uint32\n"},
	{Go: true, File: "runtime/runtime2.go",
		Old: "	waitReasonSynctestSelect:        true,\n",
		New: "	waitReasonSynctestSelect:        true,\n	waitReasonSyncMutexLock: true,\n	waitReasonSyncRWMutexRLock: true,\n	waitReasonSyncRWMutexLock: true,\n"},
	{Go: true, File: "runtime/proc.go",
		Old: "		newg.bubble = callergp.bubble\n",
		New: "		newg.bubble = callergp.bubble\n		newg.simGroup = callergp.simGroup\n"},
	{Go: true, File: "runtime/proc.go",
		Old: "	// If about to schedule a not-normal goroutine (a GCworker or tracereader),\n	// wake a P if there is one.\n	if tryWakeP {\n		wakep()\n	}\n	if gp.lockedm",
		New: "	if simSetAside(gp) {\n		goto top\n	}\n	if tryWakeP {\n		wakep()\n	}\n	if gp.lockedm"},
}
