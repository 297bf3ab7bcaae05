# What is done to this repository, by people and by CI alike: make test is the whole of it.
# Needs Go, make and, for the tests, a C compiler and Debian or something like it (see packages).

GO      ?= go
TIMEOUT ?= 25m

# How often crash kills.
KILLS   ?= 100

# How many children fire runs.
GRANTS  ?= 1000

# How long fuzz takes for each target.
SECONDS ?= 30

# What bench-compare runs, and how often.
PKG     ?= ./...
BENCHES ?= .
ROUNDS  ?= 6

# Modules of their own keep what only tests, measurements and examples need out of users' builds.
INTEROP := test/interop
SIM     := test/sim
BENCH   := bench
# The same for what needs others' libraries: metrics, spans, a resolver.
ADAPTERS := metrics/prometheus tracing/otel discovery/grpc
MODULES := . $(INTEROP) $(SIM) $(BENCH) examples $(ADAPTERS)
TOOL    := $(GO) tool -modfile=$(CURDIR)/tools/go.mod

# The race detector sleeps for a second at the end of each process, in case another thread has still to say something.
export GORACE ?= atexit_sleep_ms=0

.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: help build test packages fmt-check vet staticcheck vulncheck unit adapters sim-short sim-and-examples sim-roles examples interop model walk race sim teeth systemd-check newer crash chaos fire peers soak attack fuzz bench bench-packages bench-locks bench-micro bench-compare bench-server bench-versions bench-curves bench-readers bench-permits bench-waiters bench-roles bench-z fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the command
	CGO_ENABLED=0 $(GO) build -o lockkeeper ./cmd/lockkeeper

test: packages fmt-check vet staticcheck vulncheck unit adapters sim-and-examples interop ## all that must be green

# Installs the packages that are missing.
define INSTALL
[ -n "$$missing" ] || exit 0; \
if [ "$$(id -u)" -ne 0 ]; then \
	echo "Debian packages are needed that are not installed. Run:" >&2; \
	echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends" $$missing >&2; \
	exit 1; \
fi; \
export DEBIAN_FRONTEND=noninteractive; \
apt-get update && apt-get install -y --no-install-recommends $$missing
endef

packages: ## Debian packages that the tests need; installed if we may, named if not
	@missing=$$(cd $(INTEROP) && CGO_ENABLED=0 $(GO) run ./packages) || exit 1; $(INSTALL)

bench-packages: ## Debian packages of those that we are compared with
	@missing=$$(cd $(BENCH) && CGO_ENABLED=0 $(GO) run . packages) || exit 1; $(INSTALL)

fmt-check:
	@unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }

vet:
	@for dir in $(MODULES); do (cd $$dir && $(GO) vet ./...) || exit 1; done

staticcheck:
	@for dir in $(MODULES); do (cd $$dir && $(TOOL) staticcheck ./...) || exit 1; done

# Known vulnerabilities fail the run; a database out of reach does not. A small package comes first, to find that out.
vulncheck:
	@for dir in zk $(MODULES); do \
		(cd $$dir && $(TOOL) govulncheck ./...) >.vulncheck 2>&1; status=$$?; \
		cat .vulncheck; \
		if [ $$status -ne 0 ] && grep -q 'fetching vulnerabilities' .vulncheck; then \
			echo "The vulnerability database is out of reach: from $$dir on, nothing was checked against it."; \
			rm -f .vulncheck; exit 0; \
		fi; \
		rm -f .vulncheck; \
		[ $$status -eq 0 ] || exit $$status; \
	done

# Pure packages without a goroutine, in code or tests, and one long test of the log: the race detector can find nothing
# there, and makes them five times as slow. The tests of the command start it more than two thousand times, and half of
# their time would be the start of the race detector: its parts that have goroutines (front, engine, guard, local server)
# are packages with raced tests of their own, and make race runs the whole command with it.
PURE := ./test/model ./lock/internal/queue
COMMAND := ./cmd/lockkeeper
ONE_GOROUTINE := TestF44_CrashAtEveryOperation

# vet has looked at everything already; go test would do part of it again for each package.
UNVETTED := -vet=off

unit: ## all tests that need nothing but Go and a C compiler; those of the command mostly wait, so they run beside the others
	$(GO) test $(UNVETTED) -parallel 6 -timeout $(TIMEOUT) $(PURE) $(COMMAND) & command=$$!; \
	$(GO) test $(UNVETTED) -timeout $(TIMEOUT) -run '^$(ONE_GOROUTINE)$$' ./internal/server/store && \
	$(GO) test $(UNVETTED) -race -skip '^$(ONE_GOROUTINE)$$' -parallel 6 -timeout $(TIMEOUT) $$($(GO) list ./... | grep -v $(patsubst .%,-e '%$$',$(PURE) $(COMMAND))); \
	status=$$?; wait $$command && exit $$status

race: ## the tests of the command, each of whose processes has the race detector
	$(GO) test -race -count=1 -parallel 6 -timeout $(TIMEOUT) $(COMMAND)

walk: ## which files of the library a free mutex goes through, from Lock to Release
	$(GO) test -count=1 -v ./internal/testkit/walk

adapters: ## metrics, spans and the resolver of gRPC, which are modules of their own
	@for dir in $(ADAPTERS); do (cd $$dir && $(GO) test $(UNVETTED) -race -timeout $(TIMEOUT) ./...) || exit 1; done

sim-short: ## a thousand schedules of the simulation, and some mutations that it has to notice
	cd $(SIM) && $(GO) test $(UNVETTED) -timeout $(TIMEOUT) ./...

SEEDS ?= 2000
sim: ## clients, locks and server under virtual time, as many schedules as SEEDS; SEED=n repeats one, alone or behind those FROM another on
	cd $(SIM) && $(GO) run . $(if $(SEED),-seed $(SEED) $(if $(FROM),-from $(FROM)),-seeds $(SEEDS))

model: ## the lease and the queue in all orders of what can happen, in larger worlds than make unit explores; takes minutes and gigabytes
	$(GO) test -timeout 60m -run 'TestF17|TestModel' -v ./test/model ./lock/internal/queue -model.large

teeth: ## does the simulation notice each cure that is missing?
	cd $(SIM) && $(GO) run . -teeth
	cd $(SIM) && $(GO) test -v -count=1 -timeout 60m -run TestMutations ./roles -roles.teeth

sim-roles: ## the packages beside locks under faults, as many schedules as SEEDS; SEED=n repeats one
	@cd $(SIM) && $(GO) test -v -count=1 -timeout 0 -run TestSeeds ./roles $(if $(SEED),-roles.seed=$(SEED),-roles.seeds=$(SEEDS)) >.sim-roles 2>&1; status=$$?; \
	grep -v '^ *\(===\|---\) ' .sim-roles; rm -f .sim-roles; exit $$status

examples: packages ## the example programs, as processes and in a browser
	cd examples && $(GO) test $(UNVETTED) -count=1 -parallel 6 -timeout $(TIMEOUT) ./... # no race detector: the programs are processes of their own

sim-and-examples: ## the examples mostly wait, so they run beside the simulation
	$(MAKE) examples & examples=$$!; $(MAKE) sim-short; status=$$?; wait $$examples && exit $$status

# What only drives processes of others and of ours gains nothing from the race detector in the driver. Those in which our library works on many goroutines keep it.
RACED := ./locks ./chaos ./roles ./clients ./soak ./leases

# The command is built once for all that run it, which the cache of results does not know of. All mostly wait, so the raced ones
# run beside the others, the long ones first.
interop: packages build ## tests against Apache ZooKeeper, Curator, go-zookeeper and kazoo
	cd $(INTEROP) && { \
	$(GO) test $(UNVETTED) -race -count=1 -p 2 -parallel 6 -timeout $(TIMEOUT) $(RACED) & raced=$$!; \
	LOCKKEEPER_TEST_COMMAND=$(CURDIR)/lockkeeper $(GO) test $(UNVETTED) -count=1 -p 2 -parallel 5 -timeout $(TIMEOUT) . ./crash ./fire $$($(GO) list ./... | grep -v $(patsubst .%,-e '/interop%$$',. ./crash ./fire $(RACED))); \
	status=$$?; wait $$raced && exit $$status; }

newer: ## suites of locks and of other clients on the ZooKeeper, Curator and kazoo of a newer Debian, installed in DIR; needs root and debootstrap
	@[ "$(DIR)" ] || { echo "where? make newer DIR=/var/tmp/newer" >&2; exit 64; }
	$(INTEROP)/newer.sh "$(DIR)" ./locks ./leases ./roles ./clients ./tour

crash: packages ## kill -9 of the server under load: make crash KILLS=1000
	cd $(INTEROP) && $(GO) test -v -count=1 -timeout 2h -run TestKill9 ./crash -crash.kills=$(KILLS) $(if $(SEED),-crash.seed=$(SEED))

MINUTES ?= 10
chaos: packages ## locks on three ZooKeeper servers, each on a host of its own, for MINUTES while servers, clients and the network fail, and for MINUTES while the servers' configuration changes; SEED=n repeats a schedule
	cd $(INTEROP) && $(GO) test -race -v -count=1 -timeout 0 -run 'TestChaos|TestF17' ./chaos -chaos.rig=netns -chaos.minutes=$(MINUTES) -chaos.changing=$(MINUTES)m $(if $(SEED),-chaos.seed=$(SEED))

fire: packages ## the command with its processes killed and frozen, until so many children have run: make fire GRANTS=1000
	cd $(INTEROP) && $(GO) test -v -count=1 -timeout 2h -run TestCommandUnderFire ./fire -fire.grants=$(GRANTS) $(if $(SEED),-fire.seed=$(SEED))

systemd-check: build ## the units of packaging/ and docs/operations.md under a systemd of its own; wants root and systemd
	cd $(INTEROP) && $(GO) run ./systemd -command $(CURDIR)/lockkeeper -packaging $(CURDIR)/packaging

PEERS_TIME ?= 30s
peers: packages ## peers of all makes go through the same locks as fast as they can, for PEERS_TIME each, and crash
	cd $(INTEROP) && $(GO) test -v -count=1 -timeout 2h -run 'TestMixedHandOvers' . -peers.spin=$(PEERS_TIME) -peers.crashes=10

soak: packages ## a hundred clients and ten thousand locks, and nothing grows; beside them holds that no rule may shorten: make soak MINUTES=60
	cd $(INTEROP) && $(GO) test -v -count=1 -timeout 0 -p 2 ./soak ./leases -soak.time=$(MINUTES)m

ATTACK_SECONDS ?= 10
attack: packages ## our server and Apache ZooKeeper under attack, with a client that behaves well beside: make attack ATTACK_SECONDS=10; wants a machine to itself
	cd $(INTEROP) && $(GO) test -v -count=1 -timeout 0 -run TestAttacks ./attack -attack.full -attack.time=$(ATTACK_SECONDS)s $(if $(FRAMES),-attack.counter=$(abspath $(FRAMES)))

fuzz: ## every fuzz target for SECONDS: make fuzz SECONDS=60
	@for pkg in $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "fuzz: $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(SECONDS)s $$pkg || { echo "fuzz: violations=1 $$pkg $$target"; exit 1; }; \
		done; \
	done; echo "fuzz: violations=0 seconds=$(SECONDS)"

bench: bench-packages ## everything beside its peers, into docs/benchmarks.md and its chart; wants a machine to itself
	cd $(BENCH) && $(GO) run . all

bench-locks: bench-packages ## the locks alone, printed
	cd $(BENCH) && $(GO) run . locks

bench-micro: ## micro-benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Both revisions are measured by turns, so that what the machine does meanwhile hits both.
bench-compare: ## micro-benchmarks of BASE (a revision) beside those of the checkout: make bench-compare BASE=main PKG=./internal/wire
	@[ -n "$(BASE)" ] || { echo "which revision? make bench-compare BASE=main" >&2; exit 64; }
	mkdir -p results
	@base=$$(mktemp -d) && trap 'git worktree remove --force "$$base"' EXIT && git worktree add -q --detach "$$base" $(BASE) && \
	rm -f results/base.txt results/here.txt && \
	for i in $$(seq $(ROUNDS)); do \
		(cd "$$base" && $(GO) test -run '^$$' -bench '$(BENCHES)' -benchmem $(PKG)) >>results/base.txt && \
		$(GO) test -run '^$$' -bench '$(BENCHES)' -benchmem $(PKG) >>results/here.txt || exit 1; \
	done
	$(TOOL) benchstat results/base.txt results/here.txt

bench-server: ## our server beside Apache ZooKeeper: rates, who is the limit, memory, start
	cd $(BENCH) && $(GO) run . server

bench-versions: ## our server and locks beside themselves at BASE (a revision), by turns: make bench-versions BASE=main
	@[ -n "$(BASE)" ] || { echo "which revision? make bench-versions BASE=main" >&2; exit 64; }
	@base=$$(mktemp -d) && trap 'git worktree remove --force "$$base"' EXIT && git worktree add -q --detach "$$base" $(BASE) && \
	cd $(BENCH) && $(GO) run . versions -base "$$base"

bench-curves: ## our server with ever more sessions and znodes
	cd $(BENCH) && $(GO) run . curves

bench-permits: ## semaphores that four times as many sessions want as there are permits
	cd $(BENCH) && $(GO) run . permits

bench-readers: ## 64 readers of one lock beside 64 mutexes
	cd $(BENCH) && $(GO) run . readers

bench-waiters: ## what a waiting contender costs our server in memory
	cd $(BENCH) && $(GO) run . waiters

bench-roles: ## the packages beside locks: cache, discovery, group
	cd $(BENCH) && $(GO) run . roles

bench-z: ## the znode commands from start to exit, and Tab in the shell
	cd $(BENCH) && $(GO) run . z

fmt:
	gofmt -w .

clean:
	rm -f lockkeeper
	$(GO) clean ./...
