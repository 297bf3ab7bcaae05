/** The lock that the peer holds, if any, and whom it has told of it. */
final class Holding {
    private final CuratorPeer peer;
    private Claim held;
    private String[] places;

    Holding(CuratorPeer peer) {
        this.peer = peer;
    }

    /** Acquires the lock, waiting no longer than millis unless that is negative; -1 is too short. */
    long take(String path, String as, long millis) throws Exception {
        Claim claim = Claims.make(peer.client, path, as);
        if (!claim.acquire(millis)) {
            return -1;
        }
        long[] tokens = claim.tokens();
        places = path.split(",");
        for (int i = 0; i < places.length; i++) {
            peer.register.enter(places[i], tokens[i], Claims.limit(as));
        }
        held = claim;
        return tokens[0];
    }

    void giveUp() throws Exception {
        for (String place : places) {
            peer.register.leave(place);
        }
        held.release();
        held = null;
    }
}
