# kazoo's calls and recipes, telling what came of them on standard output.
import logging
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import make_acl, make_digest_acl
from kazoo.recipe.watchers import ChildrenWatch, DataWatch

logging.disable(logging.CRITICAL)
PATIENCE = 30


def say(*words):
    print(*words, flush=True)


def attempt(what, call):
    try:
        say(what, call())
    except KazooException as e:
        say(what, type(e).__name__)


def client():
    c = KazooClient(hosts=sys.argv[1], timeout=10)
    c.start()
    return c


a, b = client(), client()

attempt("create", lambda: a.create("/a", b"data"))
attempt("create", lambda: a.create("/a", b"data"))
attempt("create", lambda: a.create("/none/x"))
attempt("create", lambda: a.create("/deep/er/still", makepath=True, include_data=True)[0])
attempt("create", lambda: a.create("/a/e", ephemeral=True))
attempt("create", lambda: a.create("/a/s-", sequence=True))
attempt("create", lambda: a.create("/a/es-", sequence=True, ephemeral=True))
attempt("create", lambda: a.create("/a/e/x"))
attempt("get", lambda: (a.get("/a")[0], a.get("/a")[1].version, a.get("/a")[1].numChildren))
attempt("get", lambda: a.get("/none"))
attempt("set", lambda: a.set("/a", b"more", 0).version)
attempt("set", lambda: a.set("/a", b"more", 0).version)
attempt("exists", lambda: a.exists("/none"))
attempt("children", lambda: sorted(a.get_children("/a")))
attempt("delete", lambda: a.delete("/a"))
attempt("delete", lambda: a.delete("/deep", recursive=True))
attempt("ensure", lambda: a.ensure_path("/en/sure"))
attempt("acls", lambda: a.get_acls("/a")[0])
attempt("sync", lambda: a.sync("/a"))
attempt("auth", lambda: a.add_auth("digest", "bob:pw"))
attempt("secret", lambda: a.create("/secret", b"s", acl=[make_digest_acl("bob", "pw", all=True)]))
attempt("secret", lambda: b.get("/secret"))
attempt("secret", lambda: a.get("/secret")[0])
attempt("set acls", lambda: a.set_acls("/secret", [make_acl("world", "anyone", read=True)]).aversion)
attempt("secret", lambda: b.get("/secret")[0])
attempt("secret", lambda: b.set("/secret", b""))

t = a.transaction()
t.create("/t", b"x")
t.set_data("/t", b"y", 0)
t.check("/t", 1)
t.create("/t/x")
t.delete("/t/x")
say("transaction", [type(r).__name__ for r in t.commit()])
t = a.transaction()
t.create("/t/x")
t.check("/t", 7)
t.delete("/t")
say("transaction", [type(r).__name__ for r in t.commit()])

# Watches: each change waits until the last has been seen.
seen = threading.Semaphore(0)
data, children = [], []


@DataWatch(b, "/watched")
def watch_data(value, stat, event):
    data.append((value, event and event.type))
    seen.release()


def await_seen():
    if not seen.acquire(timeout=PATIENCE):
        sys.exit("a watch is not called")


await_seen()
for change in (lambda: a.create("/watched", b"1"), lambda: a.set("/watched", b"2"), lambda: a.delete("/watched"), lambda: a.create("/watched", b"3")):
    change()
    await_seen()
say("data watch", data)


@ChildrenWatch(b, "/watched")
def watch_children(names):
    children.append(sorted(names))
    seen.release()


await_seen()
for change in (lambda: a.create("/watched/x"), lambda: a.create("/watched/y"), lambda: a.delete("/watched/x")):
    change()
    await_seen()
say("children watch", children)

# Recipes.
inside, most, turns = 0, 0, 0
guard = threading.Lock()


def contend(c, make, limit):
    global inside, most, turns
    lock = make(c)
    for _ in range(5):
        with lock:
            with guard:
                inside += 1
                turns += 1
                most = max(most, inside)
                say_no = inside > limit
            if say_no:
                say("too many inside")
            with guard:
                inside -= 1


def together(what, make, limit):
    global turns
    turns = 0
    threads = [threading.Thread(target=contend, args=(c, make, limit)) for c in (a, b, a, b)]
    for th in threads:
        th.start()
    for th in threads:
        th.join(PATIENCE)
    say(what, turns)


together("lock", lambda c: c.Lock("/lock"), 1)
together("write lock", lambda c: c.WriteLock("/rwlock"), 1)
together("semaphore", lambda c: c.Semaphore("/semaphore", max_leases=2), 2)
rl, rl2 = a.ReadLock("/rwlock2"), b.ReadLock("/rwlock2")
say("read locks", rl.acquire(), rl2.acquire())
say("write lock", b.WriteLock("/rwlock2").acquire(blocking=False))
rl.release()
rl2.release()
held = a.Lock("/lock", "holder")
held.acquire()
say("contenders", b.Lock("/lock").contenders())
say("lock", b.Lock("/lock").acquire(blocking=False))
held.release()

led = []
for c in (a, b):
    c.Election("/election", str(len(led))).run(lambda: led.append(1))
say("election", len(led))

counter_a, counter_b = a.Counter("/counter"), b.Counter("/counter")


def count(counter):
    for _ in range(10):
        counter += 1


threads = [threading.Thread(target=count, args=(x,)) for x in (counter_a, counter_b)]
for th in threads:
    th.start()
for th in threads:
    th.join(PATIENCE)
say("counter", a.Counter("/counter").value)

queue = a.Queue("/queue")
for i, priority in enumerate((100, 50, 100)):
    queue.put(b"item %d" % i, priority)
say("queue", len(queue), [b.Queue("/queue").get() for _ in range(4)])
locking = a.LockingQueue("/lqueue")
locking.put_all([b"x", b"y"])
say("locking queue", locking.get(1), locking.holds_lock(), locking.consume(), len(locking))

barrier = a.Barrier("/barrier")
barrier.create()
say("barrier", b.Barrier("/barrier").wait(0.2))
barrier.remove()
say("barrier", b.Barrier("/barrier").wait(PATIENCE))
double = [c.DoubleBarrier("/double", 2) for c in (a, b)]


def cross(d):
    d.enter()
    d.leave()


threads = [threading.Thread(target=cross, args=(d,)) for d in double]
for th in threads:
    th.start()
for th in threads:
    th.join(PATIENCE)
say("double barrier", [d.participating for d in double], a.get_children("/double"))

party = [a.Party("/party", "ann"), b.Party("/party", "bob")]
for p in party:
    p.join()
say("party", sorted(party[0]))
party[1].leave()
say("party", sorted(party[0]))

say("server version", a.server_version()[0] >= 3, "ruok", a.command(b"ruok"))
a.stop()
say("ephemerals", b.exists("/a/e"))
b.stop()
