package ensemble

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// classPath is where Debian has Apache ZooKeeper. Its zookeeper.jar names too few jars for TLS and for the admin port.
const classPath = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar:/usr/share/java/servlet-api.jar:/usr/share/java/slf4j-simple.jar"

// serverClass is the program of a member.
const serverClass = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// shellPath joins the parts of a path to a word for a shell.
func shellPath(parts ...string) string { return ShellWord(filepath.Join(parts...)) }

// ShellWord quotes a word if a shell would read something else.
func ShellWord(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plain is what a shell takes as it is.
var plain = regexp.MustCompile(`^[\pL\pN/._+,:@%=-]+$`)

// Next says what to do with what Init has written; out is its directory as the user names it.
func (s *Spec) Next(out string) string {
	var b strings.Builder
	switch s.Format {
	case FormatLocal:
		b.WriteString("start each member, in any order:\n")
		for _, m := range s.Members {
			fmt.Fprintf(&b, "  java -Xmx%s -cp %s %s %s &\n", s.Heap, classPath, serverClass, shellPath(out, m.Folder(), "zoo.cfg"))
		}
	case FormatSystemd:
		b.WriteString("for each member, as root on its machine, with its directory copied there (shown for the first):\n")
		s.install(&b, shellPath(out, s.Members[0].Folder()))
	case FormatCompose:
		fmt.Fprintf(&b, "start all:\n  docker compose -f %s up -d\n", shellPath(out, "compose.yaml"))
	case FormatKubernetes:
		secret := ""
		if s.TLS {
			secret = " -f " + shellPath(out, "tls-secret.yaml")
		}
		first := shellPath(out, "first-start.yaml")
		fmt.Fprintf(&b, "start all, and when they serve, end the permission to begin empty:\n  kubectl apply%s -f %s -f %s\n  kubectl delete -f %s\n", secret, first, shellPath(out, "kubernetes.yaml"), first)
	}
	if s.Format != FormatKubernetes {
		fmt.Fprintf(&b, "then: lockkeeper doctor%s --servers %s", s.access(out), s.Connect())
	}
	return strings.TrimRight(b.String(), "\n")
}

// access returns the flags with which commands reach the members.
func (s *Spec) access(out string) string {
	if !s.TLS {
		return ""
	}
	return fmt.Sprintf(" --tls-ca %s --tls-cert %s", shellPath(out, "tls", "ca.pem"), shellPath(out, "tls", "client.pem"))
}

// install says how a member's directory, quoted for a shell, is brought into place on its machine.
func (s *Spec) install(b *strings.Builder, dir string) {
	fmt.Fprintf(b, `  apt-get install zookeeper default-jre-headless   # or the archive of zookeeper.apache.org; see the unit
  id zookeeper || useradd --system --home-dir %[1]s --shell /usr/sbin/nologin zookeeper
  install -d -o zookeeper -g zookeeper -m 750 %[1]s && install -d %[2]s
  test ! -e %[1]s/version-2 && cp -R %[3]s/data/. %[1]s/ && install -m 644 %[3]s/zoo.cfg %[2]s/
`, s.DataDir, s.ConfDir, dir)
	owned := s.DataDir
	if s.TLS {
		fmt.Fprintf(b, "  cp -R %s/tls %s/\n", dir, s.ConfDir)
		owned += " " + filepath.Join(s.ConfDir, "tls")
	}
	fmt.Fprintf(b, `  chown -R zookeeper:zookeeper %s
  cp %s/zookeeper.service /etc/systemd/system/ && systemctl daemon-reload && systemctl enable --now zookeeper
`, owned, dir)
}

// Next says what to do with what Grow has written; out is its directory as the user names it.
func (p *Plan) Next(out string) string {
	s := &p.Spec
	var b strings.Builder
	switch s.Format {
	case FormatLocal:
		fmt.Fprintf(&b, "start all members and verify them, which is what lockkeeper ensemble grow --start --out %s does, or by hand:\n", shellPath(out))
		for _, m := range s.Members {
			fmt.Fprintf(&b, "  java -Xmx%s -cp %s %s %s &\n", s.Heap, classPath, serverClass, shellPath(out, m.Folder(), "zoo.cfg"))
		}
	case FormatSystemd:
		first := shellPath(out, s.Members[0].Folder())
		fmt.Fprintf(&b, "for each member, as root on its machine, with its directory copied there (shown for the first):\n  (cd %s && sha256sum -c --quiet %s)\n", first, sumsName)
		s.install(&b, first)
	case FormatCompose:
		fmt.Fprintf(&b, "start all:\n  docker compose -f %s up -d\n", shellPath(out, "compose.yaml"))
	}
	fmt.Fprintf(&b, "no client is let in yet. Then: lockkeeper ensemble grow --verify --out %s\n", shellPath(out))
	b.WriteString(p.Retire())
	return b.String()
}

// Retire says what to do with the old server.
func (p *Plan) Retire() string {
	return fmt.Sprintf("do not start the old server again (systemctl disable): clients would be served by both. %s stays as it is, as a copy to go back to", p.Source.Dir)
}

// NextOpen says what to do when Verify has found all data.
func (p *Plan) NextOpen(out string) string {
	s := &p.Spec
	var b strings.Builder
	b.WriteString("all members have the data. To let clients in, restart each member, in any order, with the new zoo.cfg:\n")
	switch s.Format {
	case FormatLocal:
		for _, m := range s.Members {
			fmt.Fprintf(&b, "  java -Xmx%s -cp %s %s %s &\n", s.Heap, classPath, serverClass, shellPath(out, m.Folder(), "zoo.cfg"))
		}
	case FormatSystemd:
		fmt.Fprintf(&b, "  cp %s %s/ && systemctl restart zookeeper   # on each machine, with its own file\n", shellPath(out, s.Members[0].Folder(), "zoo.cfg"), s.ConfDir)
	case FormatCompose:
		fmt.Fprintf(&b, "  docker compose -f %s up -d --force-recreate\n", shellPath(out, "compose.yaml"))
	}
	fmt.Fprintf(&b, "then: lockkeeper doctor%s --servers %s", s.access(out), s.Connect())
	return b.String()
}
