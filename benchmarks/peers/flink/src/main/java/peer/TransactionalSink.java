package peer;

import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Two phases: what came since the last checkpoint is a file before the checkpoint is complete, and goes out once it is.
 *
 * <p>The address is a socket's, or the path of a file.
 *
 * <p>Cheaper than a real transaction (Kafka's), so in Flink's favour: opening costs nothing, and nobody else votes.
 */
public final class TransactionalSink implements Sink<byte[]>, SupportsCommitter<String> {
    private final String address;
    private final String folder;

    public TransactionalSink(String address, String folder) {
        this.address = address;
        this.folder = folder;
    }

    @Override
    public CommittingSinkWriter<byte[], String> createWriter(WriterInitContext context) throws IOException {
        Files.createDirectories(Path.of(folder));
        return new CommittingSinkWriter<>() {
            private final ByteArrayOutputStream pending = new ByteArrayOutputStream(1 << 20);

            @Override
            public void write(byte[] change, Context context) {
                pending.writeBytes(change);
            }

            @Override
            public void flush(boolean endOfInput) {}

            @Override
            public Collection<String> prepareCommit() throws IOException {
                if (pending.size() == 0) {
                    return List.of();
                }
                Path file = Path.of(folder, UUID.randomUUID().toString());
                Files.write(file, pending.toByteArray());
                pending.reset();
                return List.of(file.toString());
            }

            @Override
            public void close() {}
        };
    }

    @Override
    public Committer<String> createCommitter(CommitterInitContext context) throws IOException {
        OutputStream out = address.startsWith("/")
                ? new FileOutputStream(address, true)
                : Sockets.connect(address).getOutputStream();
        return new Committer<>() {
            @Override
            public void commit(Collection<CommitRequest<String>> requests) throws IOException {
                for (CommitRequest<String> request : requests) {
                    Path file = Path.of(request.getCommittable());
                    if (Files.exists(file)) { // else it was committed before the failure that led here
                        out.write(Files.readAllBytes(file));
                        Files.delete(file);
                    }
                }
            }

            @Override
            public void close() throws IOException {
                out.close();
            }
        };
    }

    @Override
    public SimpleVersionedSerializer<String> getCommittableSerializer() {
        return new SimpleVersionedSerializer<>() {
            @Override
            public int getVersion() {
                return 1;
            }

            @Override
            public byte[] serialize(String file) {
                return file.getBytes(StandardCharsets.UTF_8);
            }

            @Override
            public String deserialize(int version, byte[] bytes) {
                return new String(bytes, StandardCharsets.UTF_8);
            }
        };
    }
}
