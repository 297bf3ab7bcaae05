package main

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// A lock is free a moment before its holder has ended. renew waits until it is known how the hold has ended.
func TestRenewWhileTheHolderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &holder{lease: time.Hour, over: true, ended: make(chan struct{})}
		ours, theirs := net.Pipe()
		go h.answer(theirs, "")
		fmt.Fprintln(ours, doRenew)
		h.out = holderSays{Status: exit.Lost, Text: "the holder was ended"}
		go func() {
			time.Sleep(time.Second)
			close(h.ended)
		}()
		var said holderSays
		if err := json.NewDecoder(ours).Decode(&said); err != nil || said.Status != exit.Lost || said.Text != h.out.Text {
			t.Errorf("renew is told %+v, %v", said, err)
		}
		ours.Close()
	})
}
