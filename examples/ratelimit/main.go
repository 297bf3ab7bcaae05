// Command ratelimit answers whether a customer may go on: five requests a minute, counted over all processes of a
// service, and five at once after a pause:
//
//	ratelimit ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/counter"
)

const perMinute = 5

var errTooMany = errors.New("too many requests")

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: ratelimit ADDRESS")
	}
	k, err := client.Keep(context.Background(), os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		log.Fatal("ratelimit: ", err)
	}
	http.HandleFunc("GET /{customer}", func(w http.ResponseWriter, r *http.Request) {
		c, err := counter.New(k, "/examples/ratelimit/"+url.PathEscape(r.PathValue("customer")), counter.Options{})
		if err == nil {
			_, err = c.Update(r.Context(), func(old int64) (int64, error) { return book(old, time.Now()) })
		}
		if errors.Is(err, errTooMany) {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal("ratelimit: ", err)
	}
	fmt.Printf("http://%s/\n", l.Addr())
	log.Fatal(http.Serve(l, nil))
}

// book books one request. The counter is the time, in nanoseconds, until which requests are booked at an even pace. It may
// be a minute ahead, so one znode is enough for a customer (the generic cell rate algorithm).
func book(until int64, now time.Time) (int64, error) {
	next := max(until, now.UnixNano()) + int64(time.Minute/perMinute)
	if next > now.Add(time.Minute).UnixNano() {
		return 0, errTooMany
	}
	return next, nil
}
