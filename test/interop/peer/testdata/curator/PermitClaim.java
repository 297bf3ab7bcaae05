import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** A permit of a semaphore. */
final class PermitClaim implements Claim {
    private final CuratorFramework client;
    private final String path;
    private final InterProcessSemaphoreV2 semaphore;
    private Lease lease;

    PermitClaim(CuratorFramework client, String path, int permits) {
        this.client = client;
        this.path = path;
        this.semaphore = new InterProcessSemaphoreV2(client, path, permits);
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        lease = millis < 0 ? semaphore.acquire() : semaphore.acquire(millis, TimeUnit.MILLISECONDS);
        return lease != null;
    }

    @Override
    public long[] tokens() throws Exception {
        return new long[] {client.checkExists().forPath(path + "/leases/" + lease.getNodeName()).getCzxid()};
    }

    @Override
    public void release() {
        semaphore.returnLease(lease);
    }
}
