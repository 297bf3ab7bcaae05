import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.Stat;

/** Curator with two digest identities, before and after its connection breaks. */
public final class CuratorReconnect {
    public static void main(String[] args) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.builder().connectString(args[0])
            .sessionTimeoutMs(10_000).connectionTimeoutMs(10_000).retryPolicy(new RetryNTimes(20, 200))
            .authorization("digest", "bob:pw".getBytes()).build();
        c.start();
        c.blockUntilConnected();
        c.getZookeeperClient().getZooKeeper().addAuthInfo("digest", "ops:pw".getBytes());
        c.create().withMode(CreateMode.EPHEMERAL).withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/curator", "data".getBytes());
        long session = c.getZookeeperClient().getZooKeeper().getSessionId();
        System.out.println("ready");
        System.in.read();
        Stat stat = new Stat();
        String data = new String(c.getData().storingStatIn(stat).forPath("/curator"));
        System.out.println("curator " + data + " " + (stat.getEphemeralOwner() == session) + " "
            + (c.getZookeeperClient().getZooKeeper().getSessionId() == session));
        c.close();
    }
}
