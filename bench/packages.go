package main

import (
	"fmt"
	"os"
	"strings"
)

// needs are files of what is measured, and the Debian packages that they are in.
var needs = []struct{ file, pkg string }{
	{"/usr/share/java/zookeeper.jar", "zookeeper"},
	{"/usr/share/java/slf4j-simple.jar", "libslf4j-java"},
	{"/usr/bin/javac", "default-jdk-headless"},
	{"/usr/share/java/curator-recipes.jar", "libcurator-recipes-java"},
	{"/usr/lib/python3/dist-packages/kazoo/client.py", "python3-kazoo"},
	{"/usr/bin/etcd", "etcd-server"},
	{"/usr/bin/redis-server", "redis-server"},
}

// missingPackages returns the Debian packages that are not installed.
func missingPackages() []string {
	var pkgs []string
	for _, n := range needs {
		if _, err := os.Stat(n.file); err != nil {
			pkgs = append(pkgs, n.pkg)
		}
	}
	return pkgs
}

func requirePackages() error {
	if pkgs := missingPackages(); len(pkgs) > 0 {
		return fmt.Errorf("some Debian packages are missing; run: sudo apt-get update && sudo apt-get install -y --no-install-recommends %s", strings.Join(pkgs, " "))
	}
	return nil
}
