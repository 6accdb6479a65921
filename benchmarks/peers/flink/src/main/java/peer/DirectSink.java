package peer;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import org.apache.flink.api.common.operators.ProcessingTimeService;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/** Sends each change as it comes (or what has come, every so many milliseconds): no guarantee, or at least once. */
public final class DirectSink implements Sink<byte[]> {
    private final String address;
    private final long flushMillis;

    public DirectSink(String address, long flushMillis) {
        this.address = address;
        this.flushMillis = flushMillis;
    }

    @Override
    public SinkWriter<byte[]> createWriter(WriterInitContext context) throws IOException {
        OutputStream out = new BufferedOutputStream(Sockets.connect(address).getOutputStream(), 1 << 16);
        if (flushMillis > 0) {
            flushLater(context.getProcessingTimeService(), out);
        }
        return new SinkWriter<>() {
            @Override
            public void write(byte[] change, Context context) throws IOException {
                out.write(change);
                if (flushMillis == 0) {
                    out.flush();
                }
            }

            @Override
            public void flush(boolean endOfInput) throws IOException {
                out.flush();
            }

            @Override
            public void close() throws IOException {
                out.close();
            }
        };
    }

    private void flushLater(ProcessingTimeService timers, OutputStream out) {
        timers.registerTimer(timers.getCurrentProcessingTime() + flushMillis, time -> {
            out.flush();
            flushLater(timers, out);
        });
    }
}
