/** A way to take one of Curator's locks, or several at once, and give it back. */
interface Claim {
    /** Waits no longer than millis unless that is negative; false is too short. */
    boolean acquire(long millis) throws Exception;

    /** Returns the creation zxid of the znode with which each of the locks is held. */
    long[] tokens() throws Exception;

    void release() throws Exception;
}
