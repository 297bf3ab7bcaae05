/** try PATH MILLIS [AS] */
final class Try implements Command {
    private final Holding holding;

    Try(Holding holding) {
        this.holding = holding;
    }

    @Override
    public String run(String[] f) throws Exception {
        long token = holding.take(f[1], f.length > 3 ? f[3] : "mutex", Long.parseLong(f[2]));
        return token < 0 ? "busy" : "held " + token;
    }
}
