package peer;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * The inverted index in a cluster that is there before its savepoint: it begins once a file names that one.
 *
 * <p>Arguments: the file; then those of the job.
 */
public final class FromTold {
    public static void main(String[] args) throws Exception {
        Path told = Path.of(args[0]);
        while (!Files.exists(told)) {
            Thread.sleep(5);
        }
        String[] job = Arrays.copyOfRange(args, 1, args.length + 1);
        job[job.length - 1] = "execution.state-recovery.path=" + Files.readString(told).strip();
        InvertedIndex.main(job);
    }

    private FromTold() {}
}
