"""Does with kazoo what it reads, line by line, and answers each line with one."""
import functools
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.partitioner import SetPartitioner

client = KazooClient(hosts=sys.argv[1], timeout=15)
client.start()
client.Lock = functools.partial(client.Lock, extra_lock_patterns=["-lock-"])  # SetPartitioner makes its locks with it
kept = {}


def obey(f):
    if f[0] == "party":
        kept[f[1]] = client.Party(f[1], f[2])
        kept[f[1]].join()
        return ""
    if f[0] == "shallow":
        kept[f[1]] = client.ShallowParty(f[1], f[2])
        kept[f[1]].join()
        return ""
    if f[0] == "members":
        return " ".join(sorted(kept[f[1]]))
    if f[0] == "leave":
        kept[f[1]].leave()
        return ""
    if f[0] in ("counter", "curator-counter"):
        c = client.Counter(f[1], support_curator=f[0] != "counter")
        c += int(f[2])
        return str(c.value)
    if f[0] == "set":
        Barrier(client, f[1]).create()
        return ""
    if f[0] == "remove":
        return str(Barrier(client, f[1]).remove())
    if f[0] == "wait":
        return str(Barrier(client, f[1]).wait(20))
    if f[0] == "enter":
        kept["double"] = DoubleBarrier(client, f[1], int(f[2]))
        kept["double"].enter()
        return "true"
    if f[0] == "exit":
        kept["double"].leave()
        return "true"
    if f[0] == "pass":
        d = DoubleBarrier(client, f[1], int(f[2]))
        d.enter()
        d.leave()
        return "true"
    if f[0] == "partition":
        kept["partition"] = SetPartitioner(client, f[1], f[3].split(","), identifier=f[2], time_boundary=1)
        return acquire()
    if f[0] == "acquire":
        return acquire()
    if f[0] == "finish":
        kept["partition"].finish()
        return ""
    if f[0] == "campaign":
        kept["led"], kept["resigned"] = threading.Event(), threading.Event()
        threading.Thread(target=client.Election(f[1], f[2]).run, args=(term,), daemon=True).start()
        return ""
    if f[0] == "leads":
        return str(kept["led"].wait(float(f[1])))
    if f[0] == "resign":
        kept["resigned"].set()
        return ""
    raise ValueError(f[0])


def term():
    kept["led"].set()
    kept["resigned"].wait()


def acquire():
    """Waits until the set is acquired and has not changed for two seconds."""
    p, since = kept["partition"], None
    while True:
        if p.failed:
            return "failed"
        if p.release:
            since = None
            p.release_set()
        elif p.acquired:
            since = since or time.time()
            if time.time() - since > 2:
                return ",".join(sorted(p))
            time.sleep(0.05)
        else:
            since = None
            p.wait_for_acquire(timeout=1)


print("ready", flush=True)
for line in sys.stdin:
    try:
        print(("ok " + (obey(line.split()) or "")).strip(), flush=True)
    except Exception as e:
        print("failed", repr(e), flush=True)
