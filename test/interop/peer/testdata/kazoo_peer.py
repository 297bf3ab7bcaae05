"""kazoo's Lock, driven by lines on stdin; the Go package peer says which."""
import socket
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock


class CuratorNamedLock(Lock):
    """The same lock with znode names that Curator, too, takes for contenders."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class Peer:
    def __init__(self, variant, servers, timeout_millis, name, register):
        self.variant, self.name, self.held = variant, name, None
        host, port = register.rsplit(":", 1)
        self.register_file = socket.create_connection((host, int(port))).makefile("rw")
        self.client = KazooClient(hosts=servers, timeout=int(timeout_millis) / 1000.0)
        self.client.start()

    def new_lock(self, path):
        if self.variant == "curator-names":
            return CuratorNamedLock(self.client, path)
        if self.variant == "extra-patterns":
            return Lock(self.client, path, extra_lock_patterns=["-lock-"])
        return Lock(self.client, path)

    def lock(self, path, timeout=None):
        lock = self.new_lock(path)
        if not lock.acquire(timeout=timeout):
            return None
        token = self.client.exists(path + "/" + lock.node).czxid
        self.register("enter %s %d" % (self.name, token))
        self.held = lock
        return token

    def unlock(self):
        self.register("leave " + self.name)
        self.held.release()
        self.held = None

    def register(self, line):
        self.register_file.write(line + "\n")
        self.register_file.flush()
        answer = self.register_file.readline().strip()
        if answer != "ok":
            raise RuntimeError("register answers %r to %r" % (answer, line))

    def run(self, command, args):
        if command == "lock":
            return "held %d" % self.lock(args[0])
        if command == "try":
            try:
                token = self.lock(args[0], int(args[1]) / 1000.0)
            except LockTimeout:
                token = None
            return "busy" if token is None else "held %d" % token
        if command == "unlock":
            self.unlock()
            return "released"
        if command == "cycle":
            for _ in range(int(args[1])):
                self.lock(args[0])
                self.unlock()
            return "done " + args[1]
        return "error unknown command"


def main():
    peer = Peer(*sys.argv[1:])
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        command, *args = line.split()
        if command == "quit":
            break
        try:
            answer = peer.run(command, args)
        except Exception as e:  # whatever it is, the test wants to know
            answer = "error %r" % e
        print(answer, flush=True)
    peer.client.stop()
    peer.client.close()
    print("bye", flush=True)


main()
