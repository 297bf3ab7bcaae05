// Command flags says which features are on for a user. A feature is on for a percentage of the users, and every process
// of a service follows a change at once:
//
//	flags ADDRESS              GET /USER answers with the features that are on
//	flags set FEATURE PERCENT
package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/zk"
)

func main() {
	if len(os.Args) != 2 && (len(os.Args) != 4 || os.Args[1] != "set") {
		log.Fatal("usage: flags ADDRESS, or flags set FEATURE PERCENT")
	}
	k, err := client.Keep(context.Background(), os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		log.Fatal("flags: ", err)
	}
	defer k.Close(context.Background())
	if os.Args[1] == "set" {
		err = config.Store(context.Background(), k, "/examples/flags/"+os.Args[2], []byte(os.Args[3]), zk.AnyVersion, config.StoreOptions{Label: "flags"})
	} else {
		err = serve(k, os.Args[1])
	}
	if err != nil {
		log.Fatal("flags: ", err)
	}
}

func serve(k *client.Keeper, address string) error {
	// Keys: there is a znode for each feature. Optional: there may be none. What is no number does not come into force.
	opt := config.Options[map[string]uint8]{Keys: true, Optional: true}
	flags, err := config.Open(context.Background(), k, []string{"/examples/flags"}, opt)
	if err != nil {
		return err
	}
	http.HandleFunc("GET /{user}", func(w http.ResponseWriter, r *http.Request) {
		for feature, percent := range flags.Get() { // no request to ZooKeeper
			hash := fnv.New32a()
			fmt.Fprint(hash, feature, "/", r.PathValue("user"))
			if hash.Sum32()%100 < uint32(percent) {
				fmt.Fprintln(w, feature)
			}
		}
	})
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", l.Addr())
	return http.Serve(l, nil)
}
