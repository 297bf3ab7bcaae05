import java.lang.reflect.Method;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** A lock of InterProcessMutex's family, or several that are taken as one. */
final class MutexClaim implements Claim {
    private final CuratorFramework client;
    private final InterProcessLock lock;
    private final InterProcessMutex[] parts;

    MutexClaim(CuratorFramework client, InterProcessLock lock, InterProcessMutex... parts) {
        this.client = client;
        this.lock = lock;
        this.parts = parts;
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        if (millis < 0) {
            lock.acquire();
            return true;
        }
        return lock.acquire(millis, TimeUnit.MILLISECONDS);
    }

    @Override
    public long[] tokens() throws Exception {
        Method node = InterProcessMutex.class.getDeclaredMethod("getLockPath"); // for subclasses only
        node.setAccessible(true);
        long[] tokens = new long[parts.length];
        for (int i = 0; i < parts.length; i++) {
            tokens[i] = client.checkExists().forPath((String) node.invoke(parts[i])).getCzxid();
        }
        return tokens;
    }

    @Override
    public void release() throws Exception {
        lock.release();
    }
}
