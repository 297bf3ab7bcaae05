import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.data.Stat;

/** The znode of a lock that does not tell the name of it. */
final class OwnNode {
    /** Returns the path of the znode below dir that belongs to the client's session. */
    static String in(CuratorFramework client, String dir) throws Exception {
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        for (String name : client.getChildren().forPath(dir)) {
            Stat stat = client.checkExists().forPath(dir + "/" + name);
            if (stat != null && stat.getEphemeralOwner() == session) {
                return dir + "/" + name;
            }
        }
        throw new IllegalStateException("no znode of ours in " + dir);
    }

    private OwnNode() {}
}
