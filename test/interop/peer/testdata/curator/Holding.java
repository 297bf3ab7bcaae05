import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.CuratorFramework;

/** The lock that the peer holds, if any. */
final class Holding {
    /** A mutex that tells the name of its znode. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    private final CuratorPeer peer;
    private Mutex held;

    Holding(CuratorPeer peer) {
        this.peer = peer;
    }

    /** Acquires the lock, waiting no longer than millis unless that is negative; -1 is too short. */
    long take(String path, long millis) throws Exception {
        Mutex mutex = new Mutex(peer.client, path);
        if (millis < 0) {
            mutex.acquire();
        } else if (!mutex.acquire(millis, TimeUnit.MILLISECONDS)) {
            return -1;
        }
        long token = peer.client.checkExists().forPath(mutex.node()).getCzxid();
        peer.register.enter(token);
        held = mutex;
        return token;
    }

    void giveUp() throws Exception {
        peer.register.leave();
        held.release();
        held = null;
    }
}
