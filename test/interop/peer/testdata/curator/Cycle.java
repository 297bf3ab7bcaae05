/** cycle PATH N [AS] */
final class Cycle implements Command {
    private final Holding holding;

    Cycle(Holding holding) {
        this.holding = holding;
    }

    @Override
    public String run(String[] f) throws Exception {
        int n = Integer.parseInt(f[2]);
        for (int i = 0; i < n; i++) {
            holding.take(f[1], f.length > 3 ? f[3] : "mutex", -1);
            holding.giveUp();
        }
        return "done " + n;
    }
}
