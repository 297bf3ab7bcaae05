import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** revoked MILLIS: whether a lock that was taken as revocable has been asked for within a time. */
final class Revoked implements Command {
    /** One for each time that a holder has been asked to give up. */
    static final Semaphore ASKED = new Semaphore(0);

    @Override
    public String run(String[] f) throws Exception {
        return ASKED.tryAcquire(Long.parseLong(f[1]), TimeUnit.MILLISECONDS) ? "revoked" : "undisturbed";
    }
}
