package peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** The producer's lines, replayable: one split, whose place is the number of the next document. */
public final class SocketSource implements Source<String, SocketSource.Place, SocketSource.Place> {
    private final String address;

    public SocketSource(String address) {
        this.address = address;
    }

    /** The next document to read. As the enumerator's state: below zero once a reader has the split. */
    public record Place(long next) implements SourceSplit {
        @Override
        public String splitId() {
            return "docs";
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SplitEnumerator<Place, Place> createEnumerator(SplitEnumeratorContext<Place> context) {
        return new Enumerator(context, new Place(0));
    }

    @Override
    public SplitEnumerator<Place, Place> restoreEnumerator(SplitEnumeratorContext<Place> context, Place left) {
        return new Enumerator(context, left);
    }

    @Override
    public SourceReader<String, Place> createReader(SourceReaderContext context) {
        return new Reader(address);
    }

    @Override
    public SimpleVersionedSerializer<Place> getSplitSerializer() {
        return new Serializer();
    }

    @Override
    public SimpleVersionedSerializer<Place> getEnumeratorCheckpointSerializer() {
        return new Serializer();
    }

    /** Gives the one split to the one reader. */
    private static final class Enumerator implements SplitEnumerator<Place, Place> {
        private final SplitEnumeratorContext<Place> context;
        private Place left;

        Enumerator(SplitEnumeratorContext<Place> context, Place left) {
            this.context = context;
            this.left = left;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Place> splits, int subtask) {
            left = splits.get(0);
        }

        @Override
        public void addReader(int subtask) {
            if (left.next() >= 0) {
                context.assignSplit(left, subtask);
                left = new Place(-1);
            }
        }

        @Override
        public Place snapshotState(long checkpoint) {
            return left;
        }

        @Override
        public void close() {}
    }

    /** A thread reads the socket; the task takes lines when it is told that there are some. */
    private static final class Reader implements SourceReader<String, Place> {
        private final String address;
        private final ArrayBlockingQueue<String> lines = new ArrayBlockingQueue<>(1024);
        private CompletableFuture<Void> available = new CompletableFuture<>();
        private volatile IOException broken;
        private long next;
        private Socket socket;

        Reader(String address) {
            this.address = address;
        }

        @Override
        public void start() {}

        @Override
        public void addSplits(List<Place> splits) {
            next = splits.get(0).next();
            Thread reading = new Thread(this::read, "socket");
            reading.setDaemon(true);
            reading.start();
        }

        private void read() {
            try {
                socket = Sockets.connect(address);
                socket.getOutputStream().write((next + "\n").getBytes(StandardCharsets.UTF_8));
                BufferedReader reader = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
                for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                    lines.put(line);
                    synchronized (this) {
                        available.complete(null);
                    }
                }
                broken = new IOException("the producer hung up");
            } catch (IOException failure) {
                broken = failure;
            } catch (InterruptedException closed) {
                return;
            }
            synchronized (this) {
                available.complete(null);
            }
        }

        @Override
        public InputStatus pollNext(ReaderOutput<String> out) throws IOException {
            String line = lines.poll();
            if (line == null) {
                if (broken != null) {
                    throw broken;
                }
                return InputStatus.NOTHING_AVAILABLE;
            }
            next++;
            out.collect(line);
            return lines.isEmpty() ? InputStatus.NOTHING_AVAILABLE : InputStatus.MORE_AVAILABLE;
        }

        @Override
        public synchronized CompletableFuture<Void> isAvailable() {
            if (!lines.isEmpty() || broken != null) {
                return CompletableFuture.completedFuture(null);
            }
            if (available.isDone()) {
                available = new CompletableFuture<>();
            }
            return available;
        }

        @Override
        public List<Place> snapshotState(long checkpoint) {
            return new ArrayList<>(List.of(new Place(next)));
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() throws IOException {
            if (socket != null) {
                socket.close();
            }
        }
    }

    private static final class Serializer implements SimpleVersionedSerializer<Place> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Place place) {
            return ByteBuffer.allocate(8).putLong(place.next()).array();
        }

        @Override
        public Place deserialize(int version, byte[] bytes) {
            return new Place(ByteBuffer.wrap(bytes).getLong());
        }
    }
}
