package peer;

import java.io.IOException;
import java.net.Socket;

/** Connections without Nagle. */
final class Sockets {
    static Socket connect(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        socket.setTcpNoDelay(true);
        return socket;
    }

    private Sockets() {}
}
