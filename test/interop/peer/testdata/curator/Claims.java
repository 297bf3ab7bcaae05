import java.util.Arrays;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;

/** Claims by what a lock is taken as; the Go type peer.As lists that. */
final class Claims {
    private static final String PERMIT = "permit:";

    static Claim make(CuratorFramework client, String path, String as) {
        if (as.startsWith(PERMIT)) {
            return new PermitClaim(client, path, permits(as));
        }
        InterProcessMutex mutex;
        switch (as) {
            case "mutex":
                mutex = new InterProcessMutex(client, path);
                return new MutexClaim(client, mutex, mutex);
            case "revocable":
                mutex = new InterProcessMutex(client, path);
                mutex.makeRevocable(m -> Revoked.ASKED.release());
                return new MutexClaim(client, mutex, mutex);
            case "read":
                mutex = new InterProcessReadWriteLock(client, path).readLock();
                return new MutexClaim(client, mutex, mutex);
            case "write":
                mutex = new InterProcessReadWriteLock(client, path).writeLock();
                return new MutexClaim(client, mutex, mutex);
            case "leader":
                return new LeaderClaim(client, path);
            case "selector":
                return new SelectorClaim(client, path);
            case "semaphore-mutex":
                return new SemaphoreMutexClaim(client, path);
            case "all":
                InterProcessMutex[] parts = Arrays.stream(path.split(","))
                        .map(p -> new InterProcessMutex(client, p)).toArray(InterProcessMutex[]::new);
                return new MutexClaim(client, new InterProcessMultiLock(Arrays.asList(parts)), parts);
            default:
                throw new IllegalArgumentException("no such lock: " + as);
        }
    }

    /** Returns how many may be inside with a holder, itself included. */
    static int limit(String as) {
        if (as.startsWith(PERMIT)) {
            return permits(as);
        }
        return as.equals("read") ? Integer.MAX_VALUE : 1;
    }

    private static int permits(String as) {
        return Integer.parseInt(as.substring(PERMIT.length()));
    }

    private Claims() {}
}
