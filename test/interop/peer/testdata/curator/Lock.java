/** lock PATH [AS] */
final class Lock implements Command {
    private final Holding holding;

    Lock(Holding holding) {
        this.holding = holding;
    }

    @Override
    public String run(String[] f) throws Exception {
        return "held " + holding.take(f[1], f.length > 2 ? f[2] : "mutex", -1);
    }
}
