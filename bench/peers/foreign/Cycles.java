import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Takes and gives back locks with Curator: ADDRESS CLIENTS LOCKS WARM-MS EACH-MS. */
public final class Cycles {
    private static final int SESSION_MS = 30_000;

    public static void main(String[] args) throws Exception {
        String address = args[0];
        int clients = Integer.parseInt(args[1]);
        int locks = Integer.parseInt(args[2]);
        long warm = Long.parseLong(args[3]);
        long each = Long.parseLong(args[4]);

        List<CuratorFramework> open = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            CuratorFramework c = CuratorFrameworkFactory.newClient(
                address, SESSION_MS, SESSION_MS, new ExponentialBackoffRetry(100, 3));
            c.start();
            if (!c.blockUntilConnected(SESSION_MS, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("no connection to " + address);
            }
            open.add(c);
        }

        long begin = System.nanoTime() + warm * 1_000_000;
        long end = begin + each * 1_000_000;
        Times[] times = new Times[clients];
        Throwable[] failed = new Throwable[1];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            Times mine = times[i] = new Times();
            InterProcessMutex m = new InterProcessMutex(open.get(i), "/bench-curator/" + clients + "-" + i % locks);
            Thread t = new Thread(() -> {
                try {
                    cycles(m, begin, end, mine);
                } catch (Throwable e) {
                    synchronized (failed) {
                        failed[0] = e;
                    }
                }
            });
            threads.add(t);
            t.start();
        }
        for (Thread t : threads) {
            t.join();
        }
        for (CuratorFramework c : open) {
            c.close();
        }
        if (failed[0] != null) {
            throw new IllegalStateException(failed[0]);
        }
        long[] all = Times.sorted(times);
        System.out.printf(Locale.ROOT, "{\"cycles\":%d,\"seconds\":%.3f,\"p50_us\":%.1f,\"p99_us\":%.1f}%n",
            all.length, each / 1e3, at(all, 0.5), at(all, 0.99));
    }

    private static void cycles(InterProcessMutex m, long begin, long end, Times times) throws Exception {
        for (long at = System.nanoTime();;) {
            m.acquire();
            m.release();
            long now = System.nanoTime();
            if (now > end) {
                return;
            }
            if (now > begin) {
                times.add(now - at);
            }
            at = now;
        }
    }

    private static double at(long[] sorted, double q) {
        return sorted.length == 0 ? 0 : sorted[(int) (q * (sorted.length - 1))] / 1e3;
    }

    /** Times of one thread. */
    private static final class Times {
        private long[] all = new long[1024];
        private int n;

        void add(long ns) {
            if (n == all.length) {
                all = Arrays.copyOf(all, 2 * n);
            }
            all[n++] = ns;
        }

        static long[] sorted(Times[] times) {
            return Arrays.stream(times).flatMapToLong(t -> Arrays.stream(t.all, 0, t.n)).sorted().toArray();
        }
    }
}
