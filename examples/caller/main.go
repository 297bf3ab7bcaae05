// Command caller asks the instances of a service (see registry) in turn, and goes on when instances come and go. It
// sends a request whenever it reads a line:
//
//	caller
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/discovery"
)

func main() {
	ctx := context.Background()
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		log.Fatal("caller: ", err)
	}
	defer k.Close(ctx)
	services, err := discovery.Open(ctx, k, "/examples/services", discovery.Options{})
	if err != nil {
		log.Fatal("caller: ", err)
	}
	defer services.Close(ctx)
	orders := &http.Client{Transport: services.Transport(nil)}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		resp, err := orders.Get("http://orders/" + lines.Text())
		if err != nil {
			fmt.Println(err)
			continue
		}
		io.Copy(os.Stdout, resp.Body)
		resp.Body.Close()
	}
}
