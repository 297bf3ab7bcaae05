import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;

/** The connection to the register that judges holders. */
final class Register {
    private final String name;
    private final BufferedReader from;
    private final PrintWriter to;

    Register(String name, String address) throws Exception {
        this.name = name;
        int colon = address.lastIndexOf(':');
        Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        socket.setTcpNoDelay(true);
        from = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        to = new PrintWriter(socket.getOutputStream(), true);
    }

    /** Says that the holder is inside the lock that has no name, alone. */
    void enter(long token) throws Exception {
        say("enter " + name + " " + token);
    }

    /** Says that the holder is inside with at most so many, itself included. */
    void enter(String place, long token, int limit) throws Exception {
        say("enter " + name + " " + token + " " + place + " " + limit);
    }

    void leave(String place) throws Exception {
        say("leave " + name + " " + place);
    }

    void leave() throws Exception {
        say("leave " + name);
    }

    private void say(String line) throws Exception {
        to.println(line);
        String answer = from.readLine();
        if (!"ok".equals(answer)) {
            throw new IllegalStateException("register answers " + answer + " to " + line);
        }
    }
}
