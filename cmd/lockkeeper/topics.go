package main

import "github.com/spf13/cobra"

// newTopics makes the pages that lockkeeper help shows beside those of the commands.
func newTopics() []*cobra.Command {
	var topics []*cobra.Command
	for _, t := range []struct{ name, short, long string }{
		{"exit-codes", "The exit statuses of all commands", exitCodesHelp},
		{"signals", "What signals do to run, elect, hold and their commands", signalsHelp},
		{"environment", "The variables that are read, and those that a command under a lock gets", environmentHelp},
	} {
		topics = append(topics, &cobra.Command{Use: t.name, Short: t.short, Long: t.long})
	}
	return topics
}

const exitCodesHelp = `run and elect end with the exit status of their command, with 128+n if signal n ended
it, and otherwise with one of these. The other commands use the same numbers.

    0  success
    1  it failed in another way, or the answer was no (status, break); doctor: warnings
    2  doctor: something critical
   64  wrong usage, or settings that cannot work together
   66  there is no such lock, hold, configuration, group or service
   69  no server could be reached; release: the lock is free when the session expires
   70  a process of lockkeeper died before the command ran; release, renew: the holder
       does not answer
   71  the operating system refused something
   73  the status file cannot be opened (if a later write fails, a message says so);
       server, ensemble, restore: files that cannot be used
   74  the lock was lost, or a process of lockkeeper died, while the command ran
       (run --lost-code); release, renew: the hold had ended before
   75  another holder has the lock, or the wait is over (run --busy-code); config set:
       the configuration has another version; config rm: it has changed meanwhile
   76  the run was started under the lock that it asks for, and would wait for itself
   77  the servers refuse access; z, locks: also to a part, and the rest is shown
   78  a configuration file cannot be used
  126  the command cannot be executed
  127  the command cannot be found
128+n  signal n came before there was a command, or has ended lockkeeper. After INT
       (Ctrl-C) it does not return: it ends by the signal, so that a script or loop
       around it ends

A command may use the same numbers. run --status-file FILE tells them apart. The file
gets a line of JSON with the outcome (ran, busy, lost, signalled, not-executable,
failed), the exit status, the token, and how the command itself ended. With several
locks "token" is that of the first, and "tokens" has each by the path of its lock. The
file stays empty if lockkeeper is killed. It is left as it was, with the outcome of an
earlier run, if the command line cannot be read: a flag that does not exist, a value
such as --wait 10, no -- before the command. FILE may be an open descriptor: /dev/fd/3.`

const signalsHelp = `INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to the command, and to its whole
process group, as a key at a terminal is. A step of a script is spared by
(trap '' USR1; exec STEP). A second INT or TERM kills the command if it comes 0.2s
after the first, or later.

A command ignores INT and HUP if lockkeeper was started so (nohup), and no others: not the
PIPE that systemd has its services ignore, so a closed connection may end the command
(status 141). It has to ignore PIPE itself: sh -c 'trap "" PIPE; exec COMMAND'.

While run waits for the lock, any of them ends it. A candidate of elect that waits
ends too, except on USR1 and USR2, which it ignores. While there is no server, its
place in the queue lasts until its session expires. A run that is stopped (Ctrl-Z)
keeps its place, or its lock.

A hold that waits is ended by INT, TERM, HUP and QUIT. A hold that is held ends by
lockkeeper release. A signal to its holder ends it, too, and the process of --pid with
it; release says so. join and register pass signals on to their command alone.

run --revocable SIGNAL sends that signal to the command, once, when another contender
asks for the lock (lockkeeper revoke LOCK). The command keeps the lock while it runs.

When the main process of the command has ended, the processes that it has left are
told to end (TERM), and killed after --grace. Then the lock is given back. A process
with a session of its own (setsid) may stay: that is how to leave a daemon behind. It
is killed with the others when the lock is lost, or when lockkeeper is killed before
the main process has ended.

When the lock is lost, the command is told to end (TERM) and killed after --grace,
early enough to be dead before another holder can get the lock. If the lock was given
away already (the session has expired, or an operator broke the lock), the command is
killed at once. Then the command of --on-lost runs; INT, TERM and HUP end it, and not
the report of the loss. lockkeeper cannot kill a command that becomes another user:
write sudo lockkeeper run LOCK -- … and not lockkeeper run LOCK -- sudo …

A run is three processes: the one that was started; its engine, which keeps the
session; and its guard (lk-guard), which is the command's parent. Any two of them may
be killed or frozen: the third ends the command and all that it has started in time.
(The engine finds them by the command's process group and environment.) If all three
are killed at once, the kernel kills the main process and nothing else. Only its
fencing token tells then that the rest is late.`

const environmentHelp = `lockkeeper reads these variables; backup and server read none of them. A flag overrides
each but LOCKKEEPER_CONFIG (the --config of server and doctor is for a zoo.cfg).

  LOCKKEEPER_SERVERS           the servers, as in --servers
  LOCKKEEPER_TLS_CA            as --tls-ca
  LOCKKEEPER_TLS_CERT          as --tls-cert
  LOCKKEEPER_TLS_KEY           as --tls-key
  LOCKKEEPER_TLS_SERVER_NAME   as --tls-server-name
  LOCKKEEPER_AUTH_FILE         as --auth-file
  LOCKKEEPER_ACL               as --acl; z, shell and zkcli do not read it
  LOCKKEEPER_CONFIG            a client configuration file to read in place of the usual
                               ones (/dev/null: none)

What no flag and no variable says is read from lockkeeper/client.conf in XDG_CONFIG_HOME
(or ~/.config), and then from /etc/lockkeeper/client.conf: lines of KEY = VALUE with
servers, tls-ca, tls-cert, tls-key, tls-server-name, auth-file and acl. A comment is a line
that begins with #. With require-servers = true it is an error if no servers are named.

Beside the user's client.conf, connections has names for servers, for lockkeeper shell and
for trees on other servers (z cp, diff, mirror): lines of NAME SERVERS, as in
prod zk1:2181,zk2:2181/chroot.

The keeper on this machine has its data in XDG_STATE_HOME/lockkeeper (XDG_STATE_HOME is
~/.local/state if it is not set) and its socket in XDG_RUNTIME_DIR/lockkeeper, or
lockkeeper-UID in TMPDIR or /tmp. It ends when no command has needed it for
LOCKKEEPER_KEEPER_IDLE (10m; 0 is for ever).

A command under a lock gets all of these with the values that are in force, and:

  LOCKKEEPER_LOCK    the path of the lock
  LOCKKEEPER_TOKEN   the fencing token, a number that grows from holder to holder
  LOCKKEEPER_GRACE   how long after TERM the command gets KILL, for example 5s
  LOCKKEEPER_UNDER   the znodes that hold the locks around the command. A run within
                     the command reads it, so that lockkeeper locks can show runs that
                     wait for each other

The command of --on-lost gets these, and in LOCKKEEPER_LOST why the lock was lost. The
command of config watch --exec gets LOCKKEEPER_CONFIG_PATH and LOCKKEEPER_CONFIG_VERSION.

With several locks, LOCKKEEPER_LOCK and LOCKKEEPER_TOKEN have a line for each, in the
order in which they were named.`
