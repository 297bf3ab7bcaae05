import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;

/** Curator's recipes, driven by lines on stdin; the Go package peer says which. */
public final class CuratorPeer {
    final CuratorFramework client;
    final Register register;
    private final Map<String, Command> commands = new HashMap<>();

    private CuratorPeer(String servers, int timeoutMillis, String name, String address) throws Exception {
        register = new Register(name, address);
        client = CuratorFrameworkFactory.newClient(servers, timeoutMillis, 10_000, new RetryForever(100));
        Holding holding = new Holding(this);
        commands.put("lock", new Lock(holding));
        commands.put("try", new Try(holding));
        commands.put("unlock", new Unlock(holding));
        commands.put("cycle", new Cycle(holding));
        commands.put("spin", new Spin(holding));
        commands.put("who", new Who(this));
        commands.put("revoke", new Revoke(this));
        commands.put("revoked", new Revoked());
        client.start();
        client.blockUntilConnected();
    }

    public static void main(String[] args) throws Exception {
        CuratorPeer peer = new CuratorPeer(args[0], Integer.parseInt(args[1]), args[2], args[3]);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            System.out.println(peer.answer(line.split(" ")));
        }
        peer.client.close();
        System.out.println("bye");
    }

    private String answer(String[] f) {
        Command command = commands.get(f[0]);
        if (command == null) {
            return "error unknown command";
        }
        try {
            return command.run(f);
        } catch (Exception e) {
            return "error " + e;
        }
    }
}
