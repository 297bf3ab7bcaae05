import org.apache.curator.framework.recipes.locks.Revoker;

/** revoke NODE */
final class Revoke implements Command {
    private final CuratorPeer peer;

    Revoke(CuratorPeer peer) {
        this.peer = peer;
    }

    @Override
    public String run(String[] f) throws Exception {
        Revoker.attemptRevoke(peer.client, f[1]);
        return "asked";
    }
}
