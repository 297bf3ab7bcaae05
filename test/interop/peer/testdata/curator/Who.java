import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;

/** who PATH */
final class Who implements Command {
    private final CuratorPeer peer;

    Who(CuratorPeer peer) {
        this.peer = peer;
    }

    @Override
    public String run(String[] f) throws Exception {
        LeaderLatch latch = new LeaderLatch(peer.client, f[1]); // not started: it only looks
        StringBuilder ids = new StringBuilder("leads " + latch.getLeader().getId() + " of");
        for (Participant p : latch.getParticipants()) {
            ids.append(' ').append(p.getId());
        }
        return ids.toString();
    }
}
