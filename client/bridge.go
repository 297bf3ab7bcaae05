package client

import "github.com/lockkeeper/lockkeeper/internal/bridge"

func init() {
	bridge.Notify = func(source any, told chan<- struct{}) { source.(notifier).notify(told) }
}

// A notifier is a *Watch or a *Pending.
type notifier interface{ notify(told chan<- struct{}) }

func (w *Watch) notify(told chan<- struct{}) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.told = told
	switch {
	case w.Fired():
		tell(told)
	case !w.over && !w.observed:
		w.observed = true
		w.s.addDependentsLocked(1)
	}
}

func (p *Pending[T]) notify(told chan<- struct{}) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.told = told
	switch {
	case p.stage == completed:
		tell(told)
	case !p.observed:
		p.observed = true
		p.dependLocked(p.s, 1)
	}
}

// tell puts a token into told, if that is not nil and there is none in it.
func tell(told chan<- struct{}) {
	select {
	case told <- struct{}{}:
	default:
	}
}
