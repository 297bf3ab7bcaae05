package main

import (
	"strings"
	"testing"
)

func TestProgramOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"./backup.sh"}, "backup.sh"},
		{[]string{"/bin/sh", "/srv/backup.sh", "-v"}, "backup.sh"},
		{[]string{"sh", "-c", "./backup.sh --all"}, "backup.sh"},
		{[]string{"bash", "-euo", "pipefail", "-c", "x"}, "x"},
		{[]string{"bash", "-lc", "cd /srv && exec bin/backup"}, "backup"},
		{[]string{"sh", "-ec", "PASSWORD=secret HOST=a pg_dump db; rm x"}, "pg_dump"},
		{[]string{"sh", "-c", "set -e\numask 077\n/usr/bin/rsync a b"}, "rsync"},
		{[]string{"sh", "-c", `"$TOOL" x`}, "sh"},
		{[]string{"sh", "-c", "PASSWORD=secret"}, "sh"},
		{[]string{"sh", "-c", "export PASSWORD=${DB:-s3;cret word}; psql"}, "sh"},
		{[]string{"sh", "-c", `export PASSWORD="$(f "a;secret b")"; psql`}, "sh"},
		{[]string{"sh", "-c", "cd $HOME; psql"}, "psql"},
		{[]string{"sh", "-c", "PASSWORD='two words' x"}, "sh"},
		{[]string{"sh", "-c", `PASSWORD="three secret words" x`}, "sh"},
		{[]string{"sh", "-c", "A=$(cat my secret) x"}, "sh"},
		{[]string{"sh", "-c", `cd "my secret" && ./x`}, "x"},
		{[]string{"bash", "--norc", "-c", "x"}, "x"},
		{[]string{"sh", "-c", "echo up; exec sleep 9"}, "sleep"},
		{[]string{"sh", "-c", "exec echo up"}, "sh"},
		{[]string{"sh", "-c", `trap "echo asked; exit 9" USR1; while :; do sleep 1; done`}, "sh"},
		{[]string{"sh", "-c", "trap 'rm x' EXIT; ./backup"}, "backup"},
		{[]string{"sh", "-c", "while :; do sleep 1; done"}, "sh"},
		{[]string{"bash", "-c", "mkdir -p /srv/x && date > /srv/x/began && ./report"}, "report"},
		{[]string{"bash", "-c", "source ./env; ./report"}, "bash"},
		{[]string{"sh", "-c", `export P=a\&secret; x`}, "sh"},
		{[]string{"sh", "-c", "read P <<EOF\nsecret\nEOF\nx"}, "sh"},
		{[]string{"sh", "-c", "set -e # P is ;secret\nx"}, "sh"},
		{[]string{"sh", "-c", `export P="it's" Q='a;secret b'; x`}, "sh"},
		{[]string{"sh", "-c", ""}, "sh"},
		{[]string{"sh", "-c"}, "sh"},
		{[]string{"sh"}, "sh"},
		{[]string{"sh", "-ce", "PASSWORD=secret pg_dump db"}, "pg_dump"},
		{[]string{"sh", "-cx", "PASSWORD=secret"}, "sh"},
		{[]string{"bash", "-ceuo", "pipefail", "PASSWORD=secret x"}, "x"},
		{[]string{"bash", "-oc", "pipefail", "PASSWORD=secret x"}, "bash"},
		{[]string{"bash", "-c", "-e", "+x", "--", "PASSWORD=secret x", "secret"}, "x"},
		{[]string{"bash", "-O", "extglob", "+o", "posix", "-c", "x"}, "x"},
		{[]string{"zsh", "-oextendedglob", "-c", "PASSWORD=secret x"}, "zsh"},
		{[]string{"zsh", "-oextendedglob", "/srv/backup.sh", "secret"}, "zsh"},
		{[]string{"sh", "-s", "--", "--token", "secret"}, "sh"},
		{[]string{"sh", "-eux", "/srv/backup.sh", "-c", "secret"}, "backup.sh"},
		{[]string{"python3", "-c", "import os"}, "python3"},
	} {
		if got := programOf(tt.argv); got != tt.want {
			t.Errorf("%q runs %q, want %q", tt.argv, got, tt.want)
		}
	}
	if name := userName(); name == "" || strings.ContainsAny(name, " \n") {
		t.Errorf("the user is called %q", name)
	}
}
