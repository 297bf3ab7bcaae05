package faultproxy

import (
	"slices"
	"time"
)

// A Rule is a fault in waiting. Rules are claimed by a request as it arrives from the client, in
// the order in which they were added; several may act on the same request.
type Rule struct {
	// Fixed when the rule is made. Each rule has one action.
	proxy     *Proxy
	match     Match
	cutBefore bool
	cutAfter  bool
	hold      time.Duration
	before    func(Request)
	after     func(Request, Reply)

	acted chan struct{} // closed when the rule first acts

	// Guarded by proxy.mu.
	tally tally
}

// CutBefore breaks the connection before a matching request reaches the server. Requests sent
// earlier are still answered: the connection ends when the last of those answers has been
// forwarded, so that the outcome does not depend on which side is faster. Requests behind the matching one
// never reach the server.
func (p *Proxy) CutBefore(m Match) *Rule { return p.add(&Rule{match: m, cutBefore: true}) }

// CutAfter breaks the connection when the server's answer to a matching request arrives, without
// forwarding it: the server has done what was asked, the client cannot know. Answers that came
// before it have been forwarded.
func (p *Proxy) CutAfter(m Match) *Rule { return p.add(&Rule{match: m, cutAfter: true}) }

// Hold delays the answer to a matching request by d, and with it all that the server sends on that
// connection afterwards, for nothing overtakes on a stream.
func (p *Proxy) Hold(m Match, d time.Duration) *Rule { return p.add(&Rule{match: m, hold: d}) }

// Before calls f before a matching request is forwarded. While f runs, nothing else that the client
// sends on this connection is forwarded; what f does must not depend on it.
func (p *Proxy) Before(m Match, f func(Request)) *Rule { return p.add(&Rule{match: m, before: f}) }

// After calls f before the answer to a matching request is forwarded. While f runs, nothing else
// that the server sends on this connection is forwarded; what f does must not depend on it.
func (p *Proxy) After(m Match, f func(Request, Reply)) *Rule {
	return p.add(&Rule{match: m, after: f})
}

// add puts a rule behind those that are there.
func (p *Proxy) add(r *Rule) *Rule {
	r.proxy, r.acted = p, make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.rules = append(p.mu.rules, r)
	return r
}

// Remove takes the rule away: no request that arrives from now on meets it. Requests that have
// claimed it keep their claim.
func (r *Rule) Remove() {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.proxy.mu.rules = slices.DeleteFunc(r.proxy.mu.rules, func(o *Rule) bool { return o == r })
}

// Acted is closed when a request first claims the rule, which is when it arrives from the client.
func (r *Rule) Acted() <-chan struct{} { return r.acted }

// Count returns how many requests have claimed the rule.
func (r *Rule) Count() int {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	return r.tally.acted
}

// claim returns the rules that act on req.
func (p *Proxy) claim(req Request) []*Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.mu.rules), func(r *Rule) bool {
		if !r.match.matches(req) || !r.tally.take(&r.match) {
			return true
		}
		if r.tally.acted == 1 {
			close(r.acted)
		}
		return false
	})
}
