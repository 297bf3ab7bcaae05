import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** Curator's InterProcessMutex, driven by lines on stdin; the Go package peer says which. */
public final class CuratorPeer {
    /** A mutex that tells the name of its znode. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    private final CuratorFramework client;
    private final String name;
    private final BufferedReader fromRegister;
    private final PrintWriter toRegister;
    private Mutex held;

    private CuratorPeer(String servers, int timeoutMillis, String name, String register) throws Exception {
        this.name = name;
        int colon = register.lastIndexOf(':');
        Socket socket = new Socket(register.substring(0, colon), Integer.parseInt(register.substring(colon + 1)));
        socket.setTcpNoDelay(true);
        fromRegister = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        toRegister = new PrintWriter(socket.getOutputStream(), true);
        client = CuratorFrameworkFactory.newClient(servers, timeoutMillis, 10_000, new RetryForever(100));
        client.start();
        client.blockUntilConnected();
    }

    public static void main(String[] args) throws Exception {
        CuratorPeer peer = new CuratorPeer(args[0], Integer.parseInt(args[1]), args[2], args[3]);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String answer;
            try {
                answer = peer.run(line.split(" "));
            } catch (Exception e) {
                answer = "error " + e;
            }
            System.out.println(answer);
        }
        peer.client.close();
        System.out.println("bye");
    }

    private String run(String[] f) throws Exception {
        switch (f[0]) {
            case "lock":
                return "held " + lock(f[1], -1);
            case "try":
                long token = lock(f[1], Long.parseLong(f[2]));
                return token < 0 ? "busy" : "held " + token;
            case "unlock":
                unlock();
                return "released";
            case "cycle":
                int n = Integer.parseInt(f[2]);
                for (int i = 0; i < n; i++) {
                    lock(f[1], -1);
                    unlock();
                }
                return "done " + n;
            default:
                return "error unknown command";
        }
    }

    private long lock(String path, long millis) throws Exception {
        Mutex mutex = new Mutex(client, path);
        if (millis < 0) {
            mutex.acquire();
        } else if (!mutex.acquire(millis, TimeUnit.MILLISECONDS)) {
            return -1;
        }
        long token = client.checkExists().forPath(mutex.node()).getCzxid();
        register("enter " + name + " " + token);
        held = mutex;
        return token;
    }

    private void unlock() throws Exception {
        register("leave " + name);
        held.release();
        held = null;
    }

    private void register(String line) throws Exception {
        toRegister.println(line);
        String answer = fromRegister.readLine();
        if (!"ok".equals(answer)) {
            throw new IllegalStateException("register answers " + answer + " to " + line);
        }
    }
}
