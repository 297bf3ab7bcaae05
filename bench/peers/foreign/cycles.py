"""Takes and gives back locks with kazoo: ADDRESS CLIENTS LOCKS WARM-MS EACH-MS."""

import json
import sys
import threading
import time

from kazoo.client import KazooClient

SESSION = 30.0


def cycles(lock, begin, end, times):
    at = time.monotonic()
    while True:
        lock.acquire()
        lock.release()
        now = time.monotonic()
        if now > end:
            return
        if now > begin:
            times.append(now - at)
        at = now


def main():
    address = sys.argv[1]
    clients, locks, warm, each = map(int, sys.argv[2:6])
    connected = []
    for _ in range(clients):
        client = KazooClient(hosts=address, timeout=SESSION)
        client.start()
        connected.append(client)
    begin = time.monotonic() + warm / 1e3
    end = begin + each / 1e3
    times = []  # append is atomic
    failed = []

    def work(i):
        try:
            lock = connected[i].Lock("/bench-kazoo/%d-%d" % (clients, i % locks), str(i))
            cycles(lock, begin, end, times)
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for client in connected:
        client.stop()
        client.close()
    if failed:
        raise failed[0]
    times.sort()
    at = lambda q: times[int(q * (len(times) - 1))] * 1e6 if times else 0
    print(json.dumps({"cycles": len(times), "seconds": each / 1e3, "p50_us": at(0.5), "p99_us": at(0.99)}))


main()
