package doctor

import "strings"

// The limits above which there is a finding about the load of a server.
const (
	latencyMaxMs      = 100.0
	descriptorsShare  = 0.8
	outstandingMax    = 100
	fsyncMaxMs        = 1000
	snapshotMaxMs     = 30_000
	initLimitShare    = 0.5
	readableWordsNeed = "4lw.commands.whitelist=srvr,mntr,conf in zoo.cfg (--set of lockkeeper server), or an admin port that this machine reaches (--admin-port)"
)

// load looks at what the servers measure.
func (x *examination) load() {
	bounds := map[string]string{}
	for _, s := range x.alive() {
		if s.Status.LatencyAvg > latencyMaxMs {
			x.find(Warning, "latency", s.Name, "look at the disk of its transaction log, and at the size of requests", "requests take %g ms on average", s.Status.LatencyAvg)
		}
		if s.Status.Outstanding > outstandingMax {
			x.find(Warning, "outstanding", s.Name, "its disk or processor cannot follow; look for clients that send too much", "%d requests wait", s.Status.Outstanding)
		}
		if s.Monitor == nil || s.Config == nil {
			x.find(Note, "words", s.Name, readableWordsNeed, "some checks were left out: %s", unknown(s))
		}
		opened, most := number(s.Monitor, "zk_open_file_descriptor_count"), number(s.Monitor, "zk_max_file_descriptor_count")
		if most > 0 && opened > descriptorsShare*most {
			x.find(Warning, "descriptors", s.Name, "raise its limit of open files (LimitNOFILE)", "%g of %g file descriptors are in use", opened, most)
		}
		if ms := number(s.Monitor, "zk_avg_fsynctime"); ms > fsyncMaxMs {
			x.find(Warning, "fsync", s.Name, "give the transaction log a disk of its own (dataLogDir)", "a sync to disk takes %g ms on average", ms)
		}
		if ms := number(s.Monitor, "zk_max_snapshottime"); ms > snapshotMaxMs {
			x.find(Warning, "snapshot", s.Name, "keep less data, or give it a faster disk: a follower that comes back waits for a snapshot", "to write a snapshot took up to %g ms", ms)
		}
		if s.Config["minSessionTimeout"] == "" {
			continue
		}
		own := s.Config["minSessionTimeout"] + " to " + s.Config["maxSessionTimeout"] + " ms"
		bounds[own] = s.Name
		if len(bounds) == 2 {
			x.find(Warning, "timeouts", s.Name, "set tickTime, minSessionTimeout and maxSessionTimeout alike on all members", "it grants session timeouts from %s, and others grant others: a session changes when it changes servers", own)
		}
	}
}

// unknown says what is not known of a server, and why.
func unknown(s Server) string {
	var words []string
	if s.Monitor == nil {
		words = append(words, "mntr")
	}
	if s.Config == nil {
		words = append(words, "conf")
	}
	text := strings.Join(words, " and ")
	verb := " is"
	if len(words) > 1 {
		verb = " are"
	}
	text += verb + " refused"
	if s.Admin.URL != "" && s.Admin.Err != nil {
		text += ", and its admin port does not answer: " + s.Admin.Err.Error()
	}
	return text
}

// startup compares the time that servers take to load with what a leader grants them.
func (x *examination) startup() {
	for _, s := range x.alive() {
		limit := x.initLimit(s)
		if limit == 0 {
			continue
		}
		const mend = "raise initLimit on all members (a follower that is not done by then begins anew, for ever), or keep less data"
		sync := max(number(s.Monitor, "zk_max_follower_sync_time"), number(s.Monitor, "zk_max_observer_sync_time"))
		write := number(s.Monitor, "zk_max_snapshottime")
		load := number(s.Monitor, "zk_max_startup_snap_load_time") + number(s.Monitor, "zk_max_startup_txns_load_time")
		switch {
		case sync > initLimitShare*limit:
			x.find(Warning, "initlimit", s.Name, mend, "to get in sync with the leader took up to %g ms, and initLimit × tickTime allows %g ms", sync, limit)
		case write+load > initLimitShare*limit:
			x.find(Warning, "initlimit", s.Name, mend, "an estimate: a follower without data would wait %g ms for a snapshot, and load it in %g ms, as this server did, with %g bytes of data; initLimit × tickTime allows %g ms, for the transfer as well",
				write, load, number(s.Monitor, "zk_approximate_data_size"), limit)
		}
	}
}

// initLimit returns how long a member may take to get in sync, in milliseconds; 0 if that is not known. Only conf tells
// it, or the configuration file.
func (x *examination) initLimit(s Server) float64 {
	limit, tick := number(s.Config, "initLimit"), number(s.Config, "tickTime")
	if limit == 0 && x.machine != nil && s.Status.Mode != "standalone" {
		limit, tick = number(x.machine.Settings, "initLimit"), number(x.machine.Settings, "tickTime")
		if tick == 0 {
			tick = tickDefaultMs
		}
	}
	return limit * tick
}
