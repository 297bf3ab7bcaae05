/** unlock */
final class Unlock implements Command {
    private final Holding holding;

    Unlock(Holding holding) {
        this.holding = holding;
    }

    @Override
    public String run(String[] f) throws Exception {
        holding.giveUp();
        return "released";
    }
}
