package peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;

/**
 * Bids that ask an echo over TCP: Flink's asynchronous operator, ordered.
 *
 * <p>All requests go through one connection, one behind the other without waiting, which costs less than a connection for each that is
 * under way.
 *
 * <p>Arguments: source, sink, port of the echo, folder of pending transactions, requests under way at once; then any number of Flink's own
 * settings as name=value.
 */
public final class AsyncCalls {
    private static final Pattern BID =
            Pattern.compile("\"type\":\"Bid\",\"auction\":(\\d+),\"bidder\":(\\d+),\"price\":(\\d+)");

    public static void main(String[] args) throws Exception {
        Configuration settings = new Configuration();
        for (int i = 5; i < args.length; i++) {
            int at = args[i].indexOf('=');
            settings.setString(args[i].substring(0, at), args[i].substring(at + 1));
        }
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
        var bids = job.fromSource(new SocketSource(args[0]), WatermarkStrategy.noWatermarks(), "events", Types.STRING)
                .<String>flatMap((line, out) -> {
                    Matcher bid = BID.matcher(line);
                    if (bid.find()) {
                        out.collect(bid.group(1) + " " + bid.group(2) + " " + bid.group(3));
                    }
                })
                .returns(Types.STRING);
        AsyncDataStream.orderedWait(
                        bids, new Ask(Integer.parseInt(args[2])), 10, TimeUnit.SECONDS, Integer.parseInt(args[4]))
                .map(AsyncCalls::line)
                .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                .sinkTo(new TransactionalSink(args[1], args[3]));
        job.execute("async-calls");
    }

    private static byte[] line(String row) {
        String[] fields = row.split(" ");
        String json = "+I{\"auction\":" + fields[0] + ",\"bidder\":" + fields[1] + ",\"price\":" + fields[2] + "}\n";
        return json.getBytes(StandardCharsets.UTF_8);
    }

    /** A row to the same row, as the echo sends it back. */
    static final class Ask extends RichAsyncFunction<String, String> {
        private final int port;
        private transient ConcurrentLinkedQueue<ResultFuture<String>> waiting;
        private transient Socket socket;
        private transient OutputStream out;
        private transient long asked;

        Ask(int port) {
            this.port = port;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            waiting = new ConcurrentLinkedQueue<>();
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            out = socket.getOutputStream();
            Thread reading = new Thread(this::read, "echo");
            reading.setDaemon(true);
            reading.start();
        }

        @Override
        public void asyncInvoke(String row, ResultFuture<String> result) throws IOException {
            waiting.add(result);
            out.write((asked++ + " " + row + "\n").getBytes(StandardCharsets.UTF_8));
        }

        private void read() {
            try (BufferedReader reader =
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8))) {
                for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                    waiting.remove().complete(List.of(line.substring(line.indexOf(' ') + 1)));
                }
            } catch (IOException closed) {
                waiting.forEach(result -> result.completeExceptionally(closed));
            }
        }

        @Override
        public void close() throws IOException {
            if (socket != null) {
                socket.close();
            }
        }
    }

    private AsyncCalls() {}
}
