# kazoo with two digest identities, before and after its connection breaks.
import logging
import sys

from kazoo.client import KazooClient
from kazoo.security import make_acl

logging.disable(logging.CRITICAL)
c = KazooClient(hosts=sys.argv[1], timeout=10, auth_data=[("digest", "bob:pw"), ("digest", "ops:pw")])
c.start()
c.create("/kazoo", b"data", ephemeral=True, acl=[make_acl("auth", "", all=True)])
session = c.client_id[0]
print("ready", flush=True)
sys.stdin.readline()
data, stat = c.retry(c.get, "/kazoo")
print("kazoo", data, stat.ephemeralOwner == session, c.client_id[0] == session, flush=True)
c.stop()
