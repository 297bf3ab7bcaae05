# Takes kazoo's lock with credentials, if it is free, and runs a program under it.
import subprocess
import sys

from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

servers, user, password, path = sys.argv[1:5]
zk = KazooClient(hosts=servers, auth_data=[("digest", user + ":" + password)],
                 default_acl=[make_digest_acl(user, password, all=True)])
zk.start()
lock = zk.Lock(path, "kazoo", extra_lock_patterns=["-lock-"])
if not lock.acquire(blocking=False):
    print("busy")
else:
    print("ended with", subprocess.run(sys.argv[5:]).returncode, flush=True)
    lock.release()
zk.stop()
