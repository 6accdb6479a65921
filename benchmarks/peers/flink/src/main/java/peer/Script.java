package peer;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * The statements of a file, one after the other, each until it is done; those that insert take as long as their input does.
 *
 * <p>Arguments: the file, whose statements end with a semicolon at the end of a line; then any number of Flink's own settings as
 * name=value.
 */
public final class Script {
    public static void main(String[] args) throws Exception {
        Configuration settings = new Configuration();
        for (int i = 1; i < args.length; i++) {
            int at = args[i].indexOf('=');
            settings.setString(args[i].substring(0, at), args[i].substring(at + 1));
        }
        TableEnvironment tables = TableEnvironment.create(
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
        for (String statement : Files.readString(Path.of(args[0])).split(";\\s*\\n")) {
            if (!statement.isBlank()) {
                TableResult result = tables.executeSql(statement);
                if (result.getJobClient().isPresent()) {
                    result.await();
                }
            }
        }
    }

    private Script() {}
}
