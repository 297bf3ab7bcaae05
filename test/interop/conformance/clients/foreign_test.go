package clients

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/kazoo_recipes.py
var kazooRecipes string

func TestKazoo(t *testing.T) {
	said := sameOnBoth(t, replacer(), func(addr string) (string, error) {
		return run(t, "", "/usr/bin/python3", "-c", kazooRecipes, addr)
	})
	mustSay(t, said, "lock 20", "semaphore 20", "counter 20", "election 2", "barrier True", "queue 3 [b'item 1', b'item 0', b'item 2', None]")
}

const curatorJars = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-nop.jar"

//go:embed testdata/CuratorRecipes.java
var curatorRecipes []byte

func TestCurator(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "CuratorRecipes.java")
	if err := os.WriteFile(src, curatorRecipes, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/bin/javac", "-d", dir, "-cp", curatorJars, src).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("javac: %w\n%s", err, out))
	}
	said := sameOnBoth(t, replacer(), func(addr string) (string, error) {
		return run(t, "", "/usr/bin/java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
			"-cp", dir+":"+curatorJars, "CuratorRecipes", addr)
	})
	mustSay(t, said, "mutex 20", "write lock 20", "semaphore 20", "leader true", "atomic long 20", "persistent node back")
}
