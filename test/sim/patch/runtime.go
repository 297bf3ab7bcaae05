package patch

import _ "embed"

//go:embed runtime.go.txt
var runtimeSource string

// Runtime makes Go's runtime do what package rt asks of it: within bubbles, chance comes from a seed; time
// slices do not end by the clock of the machine; and groups of goroutines can be stopped. It is written for
// Go 1.26.
var Runtime = []Patch{
	{Go: true, File: "runtime/sim.go", New: runtimeSource},

	// Chance. Whatever is set up before the first bubble is the same in every process.
	{Go: true, File: "runtime/rand.go",
		Old: "	globalRand.state.Init(*seed)\n",
		New: "	*seed = [32]byte{1}\n	globalRand.state.Init(*seed)\n"},
	{Go: true, File: "runtime/rand.go",
		Old: "	mp := getg().m\n	c := &mp.chacha8\n",
		New: "	if simHere() {\n		return simRand()\n	}\n	mp := getg().m\n	c := &mp.chacha8\n"},
	{Go: true, File: "runtime/select.go",
		Old: "		j := cheaprandn(uint32(norder + 1))\n",
		New: "		j := cheaprandn(uint32(norder + 1))\n		if simHere() {\n			j = uint32(simRand() % uint64(norder+1))\n		}\n"},
	{Go: true, File: "runtime/time.go",
		Old: "			t.rand = cheaprand()\n",
		New: "			t.rand = uint32(simRand())\n"},

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
