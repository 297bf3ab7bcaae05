import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.UriSpec;

// Roles does with Curator what it reads, line by line, and answers each line with one.
public class Roles {
    static CuratorFramework client;
    static ServiceDiscovery<Void> discovery;
    static final Map<String, GroupMember> groups = new HashMap<>();
    static final Map<String, ServiceInstance<Void>> registered = new HashMap<>();
    static DistributedDoubleBarrier doubleBarrier;

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], 15000, 15000, new RetryNTimes(3, 500));
        client.start();
        client.blockUntilConnected();
        discovery = ServiceDiscoveryBuilder.builder(Void.class).client(client).basePath("/services").build();
        discovery.start();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                System.out.println(("ok " + obey(line.split(" "))).trim());
            } catch (Exception e) {
                System.out.println("failed " + e);
            }
        }
    }

    static String obey(String[] f) throws Exception {
        switch (f[0]) {
            case "register": {
                ServiceInstance<Void> i = ServiceInstance.<Void>builder().name(f[1]).id(f[2]).address(f[3]).port(Integer.parseInt(f[4]))
                        .uriSpec(new UriSpec("{scheme}://{address}:{port}")).build();
                registered.put(f[2], i);
                discovery.registerService(i);
                return "";
            }
            case "unregister":
                discovery.unregisterService(registered.get(f[1]));
                return "";
            case "instances": {
                List<String> out = new ArrayList<>();
                for (ServiceInstance<Void> i : discovery.queryForInstances(f[1])) {
                    out.add(i.getId() + "=" + i.buildUriSpec());
                }
                Collections.sort(out);
                return String.join(" ", out);
            }
            case "join": {
                GroupMember m = new GroupMember(client, f[1], f[2], f[3].getBytes());
                m.start();
                groups.put(f[1], m);
                while (client.checkExists().forPath(f[1] + "/" + f[2]) == null) {
                    Thread.sleep(20);
                }
                return "";
            }
            case "members": {
                List<String> out = new ArrayList<>();
                for (Map.Entry<String, byte[]> e : groups.get(f[1]).getCurrentMembers().entrySet()) {
                    out.add(e.getKey() + "=" + new String(e.getValue()));
                }
                Collections.sort(out);
                return String.join(" ", out);
            }
            case "leave":
                groups.get(f[1]).close();
                return "";
            case "shared": {
                SharedCount c = new SharedCount(client, f[1], 0);
                c.start();
                c.setCount(c.getCount() + Integer.parseInt(f[2]));
                String now = String.valueOf(c.getCount());
                c.close();
                return now;
            }
            case "long": {
                AtomicValue<Long> v = new DistributedAtomicLong(client, f[1], new RetryNTimes(10, 50)).add(Long.parseLong(f[2]));
                return v.succeeded() ? String.valueOf(v.postValue()) : "not changed";
            }
            case "set":
                new DistributedBarrier(client, f[1]).setBarrier();
                return "";
            case "remove":
                new DistributedBarrier(client, f[1]).removeBarrier();
                return "";
            case "wait":
                return String.valueOf(new DistributedBarrier(client, f[1]).waitOnBarrier(20, TimeUnit.SECONDS));
            case "enter":
                doubleBarrier = new DistributedDoubleBarrier(client, f[1], Integer.parseInt(f[2]));
                return String.valueOf(doubleBarrier.enter(20, TimeUnit.SECONDS));
            case "exit":
                return String.valueOf(doubleBarrier.leave(20, TimeUnit.SECONDS));
        }
        throw new IllegalArgumentException(f[0]);
    }
}
