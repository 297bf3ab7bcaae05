package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
)

// onLostLimit is how long the command of --on-lost may take.
const onLostLimit = time.Minute

// tellLost runs the command of --on-lost if the lock was lost. The command that ran under the lock is dead by then.
func (f *jobFlags) tellLost(out front.Outcome) {
	if f.onLost == "" || out.Kind != front.Lost {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), onLostLimit)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", f.onLost)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	c.Env = append(out.Env, "LOCKKEEPER_LOST="+out.Text)
	c.WaitDelay = time.Second
	err := c.Run()
	if err != nil {
		notice(fmt.Sprintf("--on-lost: %v", err))
	}
}
