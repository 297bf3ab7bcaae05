import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.Stat;

/** Curator's calls and recipes, telling what came of them on standard output. */
public final class CuratorRecipes {
    private static final int PATIENCE_SECONDS = 30;

    private static CuratorFramework client(String servers) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(servers, 10_000, 10_000, new RetryNTimes(3, 100));
        c.start();
        c.blockUntilConnected();
        return c;
    }

    private static void say(Object... words) {
        List<String> all = new ArrayList<>();
        for (Object w : words) {
            all.add(String.valueOf(w));
        }
        System.out.println(String.join(" ", all));
    }

    private static void attempt(String what, Callable<Object> call) throws Exception {
        try {
            say(what, call.call());
        } catch (KeeperException e) {
            say(what, e.code());
        }
    }

    private static <T> T next(BlockingQueue<T> from) throws Exception {
        T item = from.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
        if (item == null) {
            throw new IllegalStateException("nothing comes");
        }
        return item;
    }

    private interface Turn {
        AutoCloseable enter() throws Exception;
    }

    /** Four threads take five turns each; says how many turns there were, and whether too many were inside. */
    private static void contend(String what, int limit, Turn... turns) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger count = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (Turn turn : turns) {
            Thread th = new Thread(() -> {
                try {
                    for (int i = 0; i < 20 / turns.length; i++) {
                        try (AutoCloseable held = turn.enter()) {
                            if (inside.incrementAndGet() > limit) {
                                say(what, "too many inside");
                            }
                            count.incrementAndGet();
                            Thread.yield();
                            inside.decrementAndGet();
                        }
                    }
                } catch (Exception e) {
                    say(what, e);
                }
            });
            threads.add(th);
            th.start();
        }
        for (Thread th : threads) {
            th.join(PATIENCE_SECONDS * 1000L);
        }
        say(what, count.get());
    }

    private static Turn of(InterProcessLock lock) {
        return () -> {
            lock.acquire();
            return lock::release;
        };
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework a = client(args[0]);
        CuratorFramework b = client(args[0]);
        calls(a, b);
        locks(a, b);
        rest(a, b);
        a.close();
        b.close();
        System.exit(0);
    }

    private static void calls(CuratorFramework a, CuratorFramework b) throws Exception {
        attempt("create", () -> a.create().forPath("/a", "data".getBytes()));
        attempt("create", () -> a.create().forPath("/a"));
        attempt("create", () -> a.create().forPath("/none/x"));
        attempt("create", () -> a.create().creatingParentContainersIfNeeded().forPath("/deep/er/still"));
        Stat stat = new Stat();
        attempt("create2", () -> a.create().storingStatIn(stat).withMode(CreateMode.EPHEMERAL).forPath("/a/e"));
        say("stat", stat.getVersion(), stat.getEphemeralOwner() != 0, stat.getNumChildren());
        attempt("create", () -> a.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/a/p-").endsWith("-p-0000000001"));
        attempt("ttl", () -> a.create().withTtl(600_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ttl"));
        attempt("container", () -> a.create().withMode(CreateMode.CONTAINER).forPath("/container"));
        attempt("or set", () -> a.create().orSetData().forPath("/a", "other".getBytes()));
        attempt("get", () -> new String(b.getData().storingStatIn(stat).forPath("/a")));
        say("stat", stat.getVersion(), stat.getCversion(), stat.getNumChildren(), stat.getDataLength());
        attempt("set", () -> a.setData().withVersion(7).forPath("/a"));
        attempt("delete", () -> a.delete().forPath("/a"));
        attempt("delete", () -> a.delete().deletingChildrenIfNeeded().forPath("/deep"));
        attempt("acl", () -> a.getACL().forPath("/a"));
        attempt("set acl", () -> a.setACL().withACL(ZooDefs.Ids.READ_ACL_UNSAFE).forPath("/ttl").getAversion());
        attempt("set", () -> b.setData().forPath("/ttl"));
        attempt("sync", () -> a.sync().forPath("/a"));
        StringBuilder b2 = new StringBuilder();
        for (CuratorTransactionResult r : a.transaction().forOperations(
                a.transactionOp().create().forPath("/t", "x".getBytes()),
                a.transactionOp().setData().withVersion(0).forPath("/t", "y".getBytes()),
                a.transactionOp().check().withVersion(1).forPath("/t"),
                a.transactionOp().create().forPath("/t/x"),
                a.transactionOp().delete().forPath("/t/x"))) {
            b2.append(r.getType()).append(' ').append(r.getResultPath()).append(' ').append(r.getError()).append(' ');
        }
        say("transaction", b2);
        attempt("transaction", () -> a.transaction().forOperations(
                a.transactionOp().create().forPath("/t/x"), a.transactionOp().check().withVersion(7).forPath("/t")));

        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        Watcher watcher = (WatchedEvent ev) -> {
            if (ev.getPath() != null) {
                events.add(ev.getType() + " " + ev.getPath());
            }
        };
        b.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(watcher).forPath("/t");
        a.create().forPath("/t/w");
        a.setData().forPath("/t/w");
        a.create().forPath("/t/w/x");
        a.delete().deletingChildrenIfNeeded().forPath("/t/w");
        for (int i = 0; i < 5; i++) {
            say("recursive", next(events));
        }
        b.watchers().remove(watcher).forPath("/t");
        say("recursive", next(events));
        b.checkExists().usingWatcher(watcher).forPath("/t/later");
        a.create().forPath("/t/later");
        say("one-shot", next(events));
    }

    private static void locks(CuratorFramework a, CuratorFramework b) throws Exception {
        contend("mutex", 1, of(new InterProcessMutex(a, "/mutex")), of(new InterProcessMutex(b, "/mutex")),
                of(new InterProcessMutex(a, "/mutex")), of(new InterProcessMutex(b, "/mutex")));
        InterProcessReadWriteLock rwa = new InterProcessReadWriteLock(a, "/rw");
        InterProcessReadWriteLock rwb = new InterProcessReadWriteLock(b, "/rw");
        contend("write lock", 1, of(rwa.writeLock()), of(rwb.writeLock()));
        rwa.readLock().acquire();
        say("read lock", rwb.readLock().acquire(PATIENCE_SECONDS, TimeUnit.SECONDS));
        say("write lock", rwb.writeLock().acquire(200, TimeUnit.MILLISECONDS));
        rwa.readLock().release();
        rwb.readLock().release();
        say("write lock", rwb.writeLock().acquire(PATIENCE_SECONDS, TimeUnit.SECONDS));
        rwb.writeLock().release();
        InterProcessSemaphoreV2 sa = new InterProcessSemaphoreV2(a, "/semaphore", 2);
        InterProcessSemaphoreV2 sb = new InterProcessSemaphoreV2(b, "/semaphore", 2);
        contend("semaphore", 2, sa::acquire, sb::acquire, sa::acquire, sb::acquire);
        Lease one = sa.acquire();
        Lease two = sb.acquire();
        say("third lease", sb.acquire(200, TimeUnit.MILLISECONDS));
        one.close();
        two.close();
        InterProcessMultiLock multi = new InterProcessMultiLock(a, List.of("/m1", "/m2"));
        multi.acquire();
        say("multi lock", new InterProcessMutex(b, "/m2").acquire(200, TimeUnit.MILLISECONDS));
        multi.release();
    }

    private static void rest(CuratorFramework a, CuratorFramework b) throws Exception {
        LeaderLatch la = new LeaderLatch(a, "/leader", "a");
        LeaderLatch lb = new LeaderLatch(b, "/leader", "b");
        la.start();
        la.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
        lb.start();
        while (lb.getParticipants().size() < 2) {
            Thread.sleep(10);
        }
        say("leader", la.hasLeadership(), lb.hasLeadership(), lb.getLeader().getId());
        la.close();
        say("leader", lb.await(PATIENCE_SECONDS, TimeUnit.SECONDS), lb.getLeader().getId());
        lb.close();

        DistributedAtomicLong[] longs = {new DistributedAtomicLong(a, "/long", new RetryNTimes(1000, 1)), new DistributedAtomicLong(b, "/long", new RetryNTimes(1000, 1))};
        contend("increments", 2, () -> increment(longs[0]), () -> increment(longs[1]));
        say("atomic long", longs[0].get().postValue());

        a.create().forPath("/cached", "0".getBytes());
        BlockingQueue<String> changes = new LinkedBlockingQueue<>();
        CuratorCache cache = CuratorCache.build(b, "/cached");
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forCreates(n -> changes.add("created " + n.getPath()))
                .forChanges((was, is) -> changes.add("changed " + is.getPath() + " " + new String(is.getData())))
                .forDeletes(n -> changes.add("deleted " + n.getPath()))
                .forInitialized(() -> changes.add("initialized")).build());
        cache.start();
        say("cache", next(changes), next(changes));
        a.create().forPath("/cached/x", "1".getBytes());
        say("cache", next(changes));
        a.setData().forPath("/cached/x", "2".getBytes());
        say("cache", next(changes));
        a.delete().forPath("/cached/x");
        say("cache", next(changes));
        cache.close();

        PathChildrenCache children = new PathChildrenCache(b, "/children", true);
        BlockingQueue<String> kids = new LinkedBlockingQueue<>();
        children.getListenable().addListener((c, ev) -> {
            if (ev.getData() != null) {
                kids.add(ev.getType() + " " + ev.getData().getPath());
            }
        });
        a.create().forPath("/children");
        a.create().forPath("/children/x");
        children.start();
        say("children", next(kids));
        a.setData().forPath("/children/x", "new".getBytes());
        say("children", next(kids));
        a.delete().forPath("/children/x");
        say("children", next(kids));
        children.close();

        PersistentNode node = new PersistentNode(a, CreateMode.EPHEMERAL, false, "/persistent", "p".getBytes());
        node.start();
        say("persistent node", node.waitForInitialCreate(PATIENCE_SECONDS, TimeUnit.SECONDS));
        long first = b.checkExists().forPath("/persistent").getCzxid();
        b.delete().forPath("/persistent");
        Stat again = null;
        for (int i = 0; i < PATIENCE_SECONDS * 100 && (again == null || again.getCzxid() == first); i++) {
            Thread.sleep(10);
            again = b.checkExists().forPath("/persistent");
        }
        say("persistent node", again == null ? "gone" : "back");
        node.close();

        SharedCount count = new SharedCount(a, "/count", 5);
        count.start();
        say("shared count", count.trySetCount(count.getVersionedValue(), 6), count.getCount());
        count.close();

        DistributedBarrier barrier = new DistributedBarrier(a, "/barrier");
        barrier.setBarrier();
        say("barrier", new DistributedBarrier(b, "/barrier").waitOnBarrier(100, TimeUnit.MILLISECONDS));
        barrier.removeBarrier();
        say("barrier", new DistributedBarrier(b, "/barrier").waitOnBarrier(PATIENCE_SECONDS, TimeUnit.SECONDS));
        DistributedDoubleBarrier da = new DistributedDoubleBarrier(a, "/double", 2);
        DistributedDoubleBarrier db = new DistributedDoubleBarrier(b, "/double", 2);
        Thread other = new Thread(() -> {
            try {
                db.enter(PATIENCE_SECONDS, TimeUnit.SECONDS);
                db.leave(PATIENCE_SECONDS, TimeUnit.SECONDS);
            } catch (Exception e) {
                say(e);
            }
        });
        other.start();
        say("double barrier", da.enter(PATIENCE_SECONDS, TimeUnit.SECONDS), da.leave(PATIENCE_SECONDS, TimeUnit.SECONDS));
        other.join(PATIENCE_SECONDS * 1000L);
    }

    private static AutoCloseable increment(DistributedAtomicLong n) throws Exception {
        if (!n.increment().succeeded()) {
            say("an increment does not succeed");
        }
        return () -> { };
    }
}
