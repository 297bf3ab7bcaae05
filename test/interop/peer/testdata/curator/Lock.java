/** lock PATH */
final class Lock implements Command {
    private final Holding holding;

    Lock(Holding holding) {
        this.holding = holding;
    }

    @Override
    public String run(String[] f) throws Exception {
        return "held " + holding.take(f[1], -1);
    }
}
