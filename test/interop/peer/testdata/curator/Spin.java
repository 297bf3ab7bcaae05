/** spin PATH MILLIS INSIDE AS[,AS...] */
final class Spin implements Command {
    private final Holding holding;

    Spin(Holding holding) {
        this.holding = holding;
    }

    @Override
    public String run(String[] f) throws Exception {
        long end = System.nanoTime() + Long.parseLong(f[2]) * 1_000_000;
        long inside = Long.parseLong(f[3]);
        String[] as = f[4].split(",");
        int n = 0;
        for (; System.nanoTime() < end; n++) {
            holding.take(f[1], as[n % as.length], -1);
            Thread.sleep(inside);
            holding.giveUp();
        }
        return "done " + n;
    }
}
