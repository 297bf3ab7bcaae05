package front

import (
	"sync"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// An Awareness tells front, engine and guard that the process of Open.Watched knows of the lock. A nil Awareness takes no
// notes.
type Awareness struct {
	// Decided reports, once the lock is not held any more, whether the process may know of it.
	Decided func() bool

	mu   sync.Mutex
	cell *link.Cell // nil while the front does not run
}

// Begin notes that the process is about to know of the lock: from now on it is ended with the others. It has an effect
// while the front runs.
func (a *Awareness) Begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cell != nil {
		a.cell.SetAware()
	}
}

// use notes which cell is to be written: that of a front that runs, or nil.
func (a *Awareness) use(cell *link.Cell) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cell = cell
}
