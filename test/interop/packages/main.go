// Command packages prints the Debian packages that the tests need and that are not installed, one a
// line; nothing if they may run.
package main

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

func main() {
	for _, p := range apache.Missing() {
		fmt.Println(p)
	}
}
