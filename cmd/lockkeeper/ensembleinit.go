package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ensemble"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// specFlags say what ensemble is wanted.
type specFlags struct {
	spec    ensemble.Spec
	members int
	set     []string
}

// membersDefault is how many members an ensemble has that are not named.
const membersDefault = 3

func (f *specFlags) addTo(cmd *cobra.Command, formats ...string) {
	flags := cmd.Flags()
	flags.StringVar(&f.spec.Format, "format", "", "what runs the members: "+strings.Join(formats, ", ")+" (default systemd for named hosts, else local)")
	flags.IntVar(&f.members, "members", membersDefault, "how many members, where no hosts are named")
	flags.BoolVar(&f.spec.TLS, "tls", false, "make certificates, and have clients and members use TLS")
	flags.StringArrayVar(&f.set, "set", nil, "a setting KEY=VALUE of zoo.cfg; may be repeated")
	flags.StringVar(&f.spec.DataDir, "data-dir", "/var/lib/zookeeper", "systemd: dataDir on the machines")
	flags.StringVar(&f.spec.ConfDir, "conf-dir", "/etc/zookeeper/conf", "systemd: directory of zoo.cfg on the machines")
	flags.StringVar(&f.spec.Heap, "heap", "1g", "the JVM's largest heap, as in 512m or 2g")
	flags.StringVar(&f.spec.Image, "image", "zookeeper:3.9.5", "compose, kubernetes: the image")
	completeValues(cmd, "format", formats...)
}

// complete puts a Spec together that has been checked.
func (f *specFlags) complete(out string, hosts []string, formats []string) (*ensemble.Spec, error) {
	s := f.spec
	if s.Format == "" {
		s.Format = ensemble.FormatSystemd
		if len(hosts) == 0 {
			s.Format = ensemble.FormatLocal
		}
	}
	if !slices.Contains(formats, s.Format) {
		return nil, fmt.Errorf("--format %s: not one of %s", s.Format, strings.Join(formats, ", "))
	}
	var err error
	if s.Set, err = ensemble.ParseSet(f.set); err != nil {
		return nil, err
	}
	if s.Out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	port := ensemble.DefaultPort(s.TLS)
	switch {
	case f.members < 1:
		return nil, fmt.Errorf("--members %d: want at least 1", f.members)
	case len(hosts) > 0 && f.members != membersDefault && f.members != len(hosts):
		return nil, fmt.Errorf("--members %d: %d hosts are named", f.members, len(hosts))
	case len(hosts) > 0 && s.Format == ensemble.FormatKubernetes:
		return nil, fmt.Errorf("--format kubernetes: names its members itself (--members, --name, --namespace)")
	case len(hosts) > 0:
		s.Members, err = ensemble.ParseMembers(hosts, port, s.Format == ensemble.FormatLocal)
	case s.Format == ensemble.FormatLocal:
		s.Members = ensemble.LocalMembers(f.members, port)
	case s.Format == ensemble.FormatKubernetes:
		s.Members = ensemble.KubernetesMembers(f.members, s.Name, s.Namespace, port)
	case s.Format == ensemble.FormatCompose:
		for i := range f.members {
			hosts = append(hosts, fmt.Sprintf("zk%d", i+1))
		}
		s.Members, err = ensemble.ParseMembers(hosts, port, s.Format == ensemble.FormatLocal)
	default:
		return nil, fmt.Errorf("--format %s: name the hosts, as in: zk1 zk2 zk3", s.Format)
	}
	if err != nil {
		return nil, err
	}
	return &s, s.Check()
}

func newEnsembleInit() *cobra.Command {
	var f specFlags
	var out string
	cmd := &cobra.Command{
		Use:   "init [[ID=]HOST[:CLIENTPORT[:QUORUMPORT:ELECTIONPORT]]…]",
		Short: "Write the files of a new ensemble",
		Long: `Write the files of a new ensemble of Apache ZooKeeper: a directory for each member with
zoo.cfg and data/myid, and what starts it. Without hosts: three members on this machine.

  local       members on this machine, each with ports of its own
  systemd     a machine for each member, with a unit
  compose     a Docker Compose file
  kubernetes  a StatefulSet with its services

A member whose data is gone takes part in no election (db.autocreate=false), so that members with
empty disks can never outvote those with data. The file data/initialize says that empty is right;
Apache ZooKeeper deletes it at the first start, and a second init does not write it again.

--tls makes two authorities, for clients and for the members among themselves, and a certificate
for each member and one for clients. Their private keys are in tls/: keep it away from others.

Nothing is overwritten. A second run writes what is missing, and refuses files with other content.

Exit status: 0, 64 wrong usage, or members that cannot form an ensemble, 73 the files cannot be
written.`,
		Example: `  lockkeeper ensemble init zk1 zk2 zk3
  lockkeeper ensemble init --tls 1=zk1.example.com 2=zk2.example.com 3=zk3.example.com
  lockkeeper ensemble init --out zk
  lockkeeper ensemble init --format kubernetes --members 5`,
		RunE: func(cmd *cobra.Command, hosts []string) error {
			s, err := f.complete(out, hosts, ensemble.Formats())
			if err != nil {
				return exit.Errorf(exit.Usage, "ensemble init: %w", err)
			}
			written, err := ensemble.Init(s)
			if err != nil {
				return exit.Errorf(exit.CannotCreate, "ensemble init: %w", err)
			}
			if len(written) == 0 {
				notice("ensemble init: " + out + " has all files already")
			}
			for _, path := range written {
				if rel, err := filepath.Rel(s.Out, path); err == nil {
					path = filepath.Join(out, rel)
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), path); err != nil {
					return err
				}
			}
			notice("ensemble init: " + s.Next(out))
			return nil
		},
	}
	f.addTo(cmd, ensemble.Formats()...)
	cmd.Flags().StringVar(&out, "out", "ensemble", "directory to write; new or empty, or one of an earlier run")
	cmd.Flags().StringVar(&f.spec.Name, "name", "zookeeper", "kubernetes: name of the StatefulSet")
	cmd.Flags().StringVar(&f.spec.Namespace, "namespace", "default", "kubernetes: the namespace")
	return cmd
}
