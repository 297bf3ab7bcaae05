package ensemble

import (
	"bytes"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
)

// The formats in which an ensemble is written.
const (
	FormatLocal      = "local"      // all members on this machine, run from their directories
	FormatSystemd    = "systemd"    // a machine for each member, with a unit
	FormatCompose    = "compose"    // a Docker Compose file
	FormatKubernetes = "kubernetes" // a StatefulSet
)

// Formats returns all formats.
func Formats() []string {
	return []string{FormatLocal, FormatSystemd, FormatCompose, FormatKubernetes}
}

// A Spec says what ensemble is wanted. Check has to have returned nil.
type Spec struct {
	Format  string
	Out     string // directory in which all is written, absolute
	Members []Member
	TLS     bool
	Set     [][2]string // more settings for zoo.cfg, or other values

	DataDir, ConfDir string // of systemd, on the members' machines
	Heap             string // of the JVM, as in -Xmx
	Image            string // of compose and kubernetes
	Name, Namespace  string // of kubernetes
}

// together reports whether all members run on this machine, with directories of this one.
func (s *Spec) together() bool { return s.Format == FormatLocal }

// heap is what Java takes behind -Xmx: a megabyte at least, or it does not start.
var heap = regexp.MustCompile(`^[1-9]([0-9]*[mMgGtT]|[0-9]{3,}[kK]|[0-9]{6,})$`)

// What Kubernetes takes for the name of a StatefulSet, whose services are named after it, and for that of a namespace.
var (
	setName   = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$`)
	namespace = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// Check refuses what cannot work.
func (s *Spec) Check() error {
	if !slices.Contains(Formats(), s.Format) {
		return fmt.Errorf("--format %s: not one of %s", s.Format, strings.Join(Formats(), ", "))
	}
	for name, dir := range map[string]string{"--data-dir": s.DataDir, "--conf-dir": s.ConfDir} {
		if !filepath.IsAbs(dir) || strings.ContainsAny(dir, " \t\n\\\"%$") {
			return fmt.Errorf("%s %q: want an absolute path without blanks, quotes and signs that systemd replaces", name, dir)
		}
	}
	if !heap.MatchString(s.Heap) {
		return fmt.Errorf("--heap %q: want a number of bytes, or one with k, m, g or t behind it, of at least a megabyte, as in 512m or 2g", s.Heap)
	}
	if s.Image == "" || strings.ContainsAny(s.Image, " \t\n\"'{}#$") {
		return fmt.Errorf("--image %q: is empty, or has blanks or quotes", s.Image)
	}
	switch {
	case s.Format != FormatKubernetes:
	case !setName.MatchString(s.Name):
		return fmt.Errorf("--name %q: Kubernetes wants small letters, digits and dashes, 52 at most, a letter first and no dash last", s.Name)
	case !namespace.MatchString(s.Namespace):
		return fmt.Errorf("--namespace %q: Kubernetes wants small letters, digits and dashes, 63 at most, with no dash first or last", s.Namespace)
	}
	unfit := func(c rune) bool { return c < ' ' || c > '~' || c == '\\' }
	if s.together() && (strings.ContainsFunc(s.Out, unfit) || strings.TrimSpace(s.Out) != s.Out) {
		return fmt.Errorf("--out %q: Java would read another path in zoo.cfg (letters of ASCII, without a backslash)", s.Out)
	}
	if s.Format == FormatKubernetes {
		for i, m := range s.Members {
			if m.ID != i+1 {
				return fmt.Errorf("member %d: in kubernetes the numbers go from 1 to %d, as the pods do", m.ID, len(s.Members))
			}
		}
	}
	err := checkMembers(s.Members, s.together())
	if err != nil {
		return err
	}
	return s.checkFile()
}

// checkFile refuses settings that do not go together.
func (s *Spec) checkFile() error {
	m := s.Members[0]
	settings, err := zoocfg.Read("zoo.cfg", bytes.NewReader(s.zooCfg(m, s.place(m), m.Client)))
	if err != nil {
		return err
	}
	for _, wrong := range zoocfg.Faults(settings, nil) {
		return errors.New(wrong.Text())
	}
	return nil
}

// KubernetesMembers returns the members that a StatefulSet has.
func KubernetesMembers(n int, name, namespace string, clientPort int) []Member {
	var all []Member
	for i := range n {
		all = append(all, Member{ID: i + 1, Host: fmt.Sprintf("%s-%d.%s-members.%s.svc.cluster.local", name, i, name, namespace),
			Client: clientPort, Quorum: quorumPortDefault, Election: electionPortDefault, Admin: adminPortDefault})
	}
	return all
}

// DefaultPort returns the port for clients that members have unless they name another.
func DefaultPort(tls bool) int {
	if tls {
		return securePortDefault
	}
	return clientPortDefault
}

// Connect returns the server list for clients, of Compose for clients on this machine.
func (s *Spec) Connect() string {
	var all []string
	for _, m := range s.services(nil) {
		if s.Format == FormatCompose {
			m.Host, m.Client = localPlaces, m.Published
		}
		all = append(all, m.Address())
	}
	return strings.Join(all, ",")
}

// place returns where a member finds its files.
func (s *Spec) place(m Member) place {
	switch s.Format {
	case FormatLocal:
		dir := filepath.Join(s.Out, m.Folder())
		return place{data: filepath.Join(dir, "data"), tls: filepath.Join(dir, "tls")}
	case FormatSystemd:
		return place{data: s.DataDir, tls: filepath.Join(s.ConfDir, "tls")}
	}
	if s.Format == FormatCompose {
		return place{data: "/data", tls: "/data/tls"} // the image gives what is in /data to its user
	}
	return place{data: "/data", tls: "/conf/tls"}
}

//go:embed templates
var templates embed.FS

// render fills a template.
func render(name string, data any) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"indent": func(n int, b []byte) string {
			return strings.ReplaceAll(strings.TrimRight(string(b), "\n"), "\n", "\n"+strings.Repeat(" ", n))
		},
		"base64": func(b []byte) string { return base64.StdEncoding.EncodeToString(b) },
	}).ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

// Init writes a new ensemble and returns the paths of the files that it has written; none if all were there already.
func Init(s *Spec) ([]string, error) {
	files, err := s.files(nil)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Members {
		if s.Format == FormatKubernetes {
			break // its first start has a file of its own
		}
		// In this order: a member that has its number has had its first start prepared.
		data := filepath.Join(s.Out, m.Folder(), "data")
		files = append(files, file{path: filepath.Join(data, initializeName), mode: publicMode, once: filepath.Join(data, myidName)}, s.myid(m))
	}
	return writeAll(s.Out, files)
}

// The names of files in a member's data directory.
const (
	myidName       = "myid"
	initializeName = "initialize"
	versionName    = "version-2"
)

func (s *Spec) myid(m Member) file {
	return file{path: filepath.Join(s.Out, m.Folder(), "data", myidName), mode: publicMode, data: fmt.Appendln(nil, m.ID)}
}

// files returns all files of an ensemble except those in the data directories. A member whose clients are not let in yet has
// another port for them in closed.
func (s *Spec) files(closed map[int]int) ([]file, error) {
	certs, err := s.certificates()
	if err != nil {
		return nil, err
	}
	all := certs.files
	var first []byte // zoo.cfg of the first member
	for _, m := range s.Members {
		port := m.Client
		if other, ok := closed[m.ID]; ok {
			port = other
		}
		text := s.zooCfg(m, s.place(m), port)
		if first == nil {
			first = text
		}
		if s.Format != FormatKubernetes {
			all = append(all, file{path: filepath.Join(s.Out, m.Folder(), "zoo.cfg"), mode: publicMode, data: text})
		}
		if s.Format == FormatSystemd {
			unit, err := render("zookeeper.service", map[string]any{"Spec": s, "Member": m, "ClassPath": classPath, "Class": serverClass})
			if err != nil {
				return nil, err
			}
			all = append(all, file{path: filepath.Join(s.Out, m.Folder(), "zookeeper.service"), mode: publicMode, data: unit})
		}
	}
	manifests := map[string][]string{FormatCompose: {"compose.yaml"}, FormatKubernetes: {"kubernetes.yaml", "first-start.yaml"}}[s.Format]
	if s.Format == FormatKubernetes && s.TLS {
		manifests = append(manifests, "tls-secret.yaml")
	}
	for _, name := range manifests {
		text, err := render(name, map[string]any{"Spec": s, "Members": s.services(closed), "Config": first, "Certs": certs.pem, "Port": s.Members[0].Client})
		if err != nil {
			return nil, err
		}
		mode := publicMode
		if name == "tls-secret.yaml" {
			mode = secretMode
		}
		all = append(all, file{path: filepath.Join(s.Out, name), mode: mode, data: text})
	}
	return all, nil
}

// A service is a member in a Compose file.
type service struct {
	Member
	Port      int // in its container
	Published int // on this machine
}

// services returns the members with ports for this machine that differ.
func (s *Spec) services(closed map[int]int) (all []service) {
	for _, m := range s.Members {
		port := m.Client
		if other, ok := closed[m.ID]; ok {
			port = other
		}
		published := port
		for slices.ContainsFunc(all, func(before service) bool { return before.Published == published }) {
			published++
		}
		all = append(all, service{m, port, published})
	}
	return all
}
