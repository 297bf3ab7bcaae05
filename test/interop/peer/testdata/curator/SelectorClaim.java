import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Leadership as LeaderSelector has it: for as long as its listener's method runs. */
final class SelectorClaim implements Claim {
    private final CuratorFramework client;
    private final String path;
    private final CountDownLatch leading = new CountDownLatch(1);
    private final CountDownLatch enough = new CountDownLatch(1);
    private final LeaderSelector selector;
    private String node;

    SelectorClaim(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
        this.selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework c) throws Exception {
                leading.countDown();
                enough.await();
            }
        });
    }

    @Override
    public boolean acquire(long millis) throws Exception {
        selector.start();
        if (millis < 0) {
            leading.await();
            return true;
        }
        if (leading.await(millis, TimeUnit.MILLISECONDS)) {
            return true;
        }
        selector.close();
        return false;
    }

    @Override
    public long[] tokens() throws Exception {
        node = OwnNode.in(client, path);
        return new long[] {client.checkExists().forPath(node).getCzxid()};
    }

    @Override
    public void release() throws Exception {
        enough.countDown();
        while (client.checkExists().forPath(node) != null) { // closing earlier would interrupt it
            Thread.sleep(1);
        }
        selector.close();
    }
}
