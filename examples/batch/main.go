// Command batch is one of several processes of a batch, which begin together and end together: none reads what another
// one has not written yet:
//
//	batch NAME PROCESSES
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/client"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: batch NAME PROCESSES")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	processes, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal("batch: ", err)
	}
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		log.Fatal("batch: ", err)
	}
	defer k.Close(context.Background())
	b, err := barrier.NewDouble(k, "/examples/batch", processes, barrier.Options{Data: []byte(os.Args[1])})
	if err != nil {
		log.Fatal("batch: ", err)
	}
	fmt.Println("ready")
	if err := b.Enter(ctx); err != nil {
		log.Fatal("batch: ", err)
	}
	fmt.Println("begin") // all processes are here
	fmt.Println("end")
	if err := b.Leave(ctx); err != nil {
		log.Fatal("batch: ", err)
	}
	fmt.Println("all have ended")
}
