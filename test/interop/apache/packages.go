package apache

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// needs lists patterns of files that tests need, and the Debian packages that they are in.
var needs = []struct{ file, pkg string }{
	{"/usr/bin/cc", "gcc"}, // for the race detector, as is libc6-dev
	{"/usr/include/stdlib.h", "libc6-dev"},
	{"/usr/bin/java", "default-jdk-headless"},
	{"/usr/bin/javac", "default-jdk-headless"},
	{zookeeperJar, "zookeeper"},
	{"/usr/share/zookeeper/bin/zkCli.sh", "zookeeper"},
	{"/usr/lib/zookeeper/bin/cli_mt", "zookeeper-bin"},
	{loggingJar, "libslf4j-java"},
	{servletJar, "libservlet-api-java"}, // for the admin port
	{"/usr/share/java/curator-recipes.jar", "libcurator-recipes-java"},
	{"/usr/share/java/curator-x-discovery.jar", "libcurator-discovery-java"},
	{"/usr/lib/python3/dist-packages/kazoo/client.py", "python3-kazoo"},
	{"/usr/lib/postgresql/*/bin/initdb", "postgresql"},
	{"/bin/ip", "iproute2"},
	{"/usr/sbin/nft", "nftables"},
	{"/usr/bin/chromium", "chromium"}, // for the page among the examples
}

// Missing returns the Debian packages that have to be installed before the tests can run.
func Missing() []string {
	var pkgs []string
	for _, n := range needs {
		if found, _ := filepath.Glob(n.file); len(found) == 0 && !slices.Contains(pkgs, n.pkg) {
			pkgs = append(pkgs, n.pkg)
		}
	}
	return pkgs
}

// Require returns nil if all that the tests need is installed, and otherwise an error that says
// what to run. A TestMain that gets an error fails (see Main): a test that is skipped proves nothing.
func Require() error {
	if pkgs := Missing(); len(pkgs) > 0 {
		return fmt.Errorf("these tests need Debian packages that are not installed; run: "+
			"sudo apt-get update && sudo apt-get install -y --no-install-recommends %s", strings.Join(pkgs, " "))
	}
	return nil
}

// Main runs the tests of m, if all that they need is installed, and returns the status with which to exit.
func Main(m *testing.M) int {
	if err := Require(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
