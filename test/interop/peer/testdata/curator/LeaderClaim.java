import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;

/** Leadership. */
final class LeaderClaim implements Claim {
    private final CuratorFramework client;
    private final LeaderLatch latch;

    LeaderClaim(CuratorFramework client, String path) {
        this.client = client;
        this.latch = new LeaderLatch(client, path, "curator");
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        latch.start();
        if (millis < 0) {
            latch.await();
            return true;
        }
        if (latch.await(millis, TimeUnit.MILLISECONDS)) {
            return true;
        }
        latch.close();
        return false;
    }

    @Override
    public long[] tokens() throws Exception {
        return new long[] {client.checkExists().forPath(latch.getOurPath()).getCzxid()};
    }

    @Override
    public void release() throws Exception {
        latch.close();
    }
}
