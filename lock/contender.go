package lock

import "github.com/lockkeeper/lockkeeper/lock/internal/queue"

// A Contender is a process that holds a lock or waits for it, as its znode shows it.
type Contender = queue.Contender

// An Owner is what a contender's znode says about the process that made it.
type Owner = queue.Owner

// A Kind says what a lock is, as its znodes tell; package inspect names the kinds.
type Kind = queue.Kind
