import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;

/** The mutex that any thread may release: a semaphore of one permit. */
final class SemaphoreMutexClaim implements Claim {
    private final CuratorFramework client;
    private final String path;
    private final InterProcessSemaphoreMutex mutex;

    SemaphoreMutexClaim(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
        this.mutex = new InterProcessSemaphoreMutex(client, path);
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        if (millis < 0) {
            mutex.acquire();
            return true;
        }
        return mutex.acquire(millis, TimeUnit.MILLISECONDS);
    }

    @Override
    public long[] tokens() throws Exception {
        return new long[] {client.checkExists().forPath(OwnNode.in(client, path + "/leases")).getCzxid()};
    }

    @Override
    public void release() throws Exception {
        mutex.release();
    }
}
