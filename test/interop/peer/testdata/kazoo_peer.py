"""kazoo's locks, driven by lines on stdin; the Go package peer says which."""
import socket
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock, ReadLock, WriteLock
from kazoo.retry import ForceRetryError

EXTRA_PATTERNS = {
    "mutex": ["-lock-"],
    "write": ["-lock-", "-__WRIT__", "-__READ__"],
    "read": ["-lock-", "-__WRIT__"],
}


class CuratorNamedLock(Lock):
    """The same lock with znode names that Curator, too, takes for contenders."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-", "__lock__"]


class CuratorNamedWriteLock(Lock):
    _NODE_NAME = "-__WRIT__"
    _EXCLUDE_NAMES = ["-__WRIT__", "-__READ__", "__lock__", "__rlock__"]


class CuratorNamedReadLock(Lock):
    """A read lock that waits for the writers ahead of it.

    kazoo's own waits for the last writer of all, also for one that is behind, which waits for it.
    """

    _NODE_NAME = "-__READ__"
    _EXCLUDE_NAMES = ["-__WRIT__", "__lock__"]

    def _get_predecessor(self, node):
        children = self.client.get_children(self.path)
        if node not in children:
            raise ForceRetryError()  # it was deleted: join the queue again
        ahead = [
            child
            for child in children
            if self._contenders_re.search(child) and child[-10:] < node[-10:]
        ]
        return max(ahead, key=lambda child: child[-10:]) if ahead else None


OWN_NAMES = {"mutex": Lock, "write": WriteLock, "read": ReadLock}
CURATOR_NAMES = {
    "mutex": CuratorNamedLock,
    "write": CuratorNamedWriteLock,
    "read": CuratorNamedReadLock,
}


class Peer:
    def __init__(self, variant, servers, timeout_millis, name, register):
        self.variant, self.name, self.held, self.place = variant, name, None, None
        host, port = register.rsplit(":", 1)
        self.register_file = socket.create_connection((host, int(port))).makefile("rw")
        self.client = KazooClient(hosts=servers, timeout=int(timeout_millis) / 1000.0)
        self.client.start()

    def new_lock(self, path, kind):
        if self.variant == "curator-names":
            return CURATOR_NAMES[kind](self.client, path)
        if self.variant == "extra-patterns":
            return OWN_NAMES[kind](self.client, path, extra_lock_patterns=EXTRA_PATTERNS[kind])
        return OWN_NAMES[kind](self.client, path)

    def lock(self, path, kind="mutex", timeout=None):
        lock = self.new_lock(path, kind)
        if not lock.acquire(timeout=timeout):
            return None
        token = self.client.exists(path + "/" + lock.node).czxid
        limit = 2**31 - 1 if kind == "read" else 1
        self.register("enter %s %d %s %d" % (self.name, token, path, limit))
        self.held, self.place = lock, path
        return token

    def unlock(self):
        self.register("leave %s %s" % (self.name, self.place))
        self.held.release()
        self.held = None

    def register(self, line):
        self.register_file.write(line + "\n")
        self.register_file.flush()
        answer = self.register_file.readline().strip()
        if answer != "ok":
            raise RuntimeError("register answers %r to %r" % (answer, line))

    def spin(self, path, millis, inside, kinds):
        n, end = 0, time.monotonic() + int(millis) / 1000.0
        while time.monotonic() < end:
            self.lock(path, kinds[n % len(kinds)])
            time.sleep(int(inside) / 1000.0)
            self.unlock()
            n += 1
        return "done %d" % n

    def run(self, command, args):
        if command == "lock":
            return "held %d" % self.lock(*args)
        if command == "try":
            try:
                token = self.lock(args[0], *args[2:], timeout=int(args[1]) / 1000.0)
            except LockTimeout:
                token = None
            return "busy" if token is None else "held %d" % token
        if command == "unlock":
            self.unlock()
            return "released"
        if command == "cycle":
            for _ in range(int(args[1])):
                self.lock(args[0], *args[2:])
                self.unlock()
            return "done " + args[1]
        if command == "spin":
            return self.spin(args[0], args[1], args[2], args[3].split(","))
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
