package peer;

import static org.apache.spark.sql.functions.*;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.streaming.ValueState;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One of three jobs between Kafka topics, in real-time mode or in micro-batches.
 *
 * <p>java peer.RealTime dedup|window|count PERIOD|micro-batch BROKERS SOURCE SINK CHECKPOINT [SETTING=VALUE...]
 *
 * <p>PERIOD is how long a batch of real-time mode lasts, which is its time between checkpoints.
 */
public final class RealTime {
    private static final String SCHEMA = "id string, user string, at long";

    private RealTime() {}

    public static void main(String[] args) throws Exception {
        String job = args[0];
        boolean batches = args[1].equals("micro-batch");
        SparkSession.Builder builder = SparkSession.builder().appName(job);
        for (int place = 6; place < args.length; place++) {
            String[] setting = args[place].split("=", 2);
            builder = builder.config(setting[0], setting[1]);
        }
        SparkSession spark = builder.getOrCreate();
        Dataset<Row> records = spark.readStream().format("kafka")
                .option("kafka.bootstrap.servers", args[2])
                .option("subscribe", args[3])
                .option("startingOffsets", "earliest")
                .load();
        Dataset<Row> events = records
                .select(from_json(col("value").cast("string"), SCHEMA, java.util.Map.of()).as("event"))
                .select("event.*");
        StreamingQuery query = results(job, events).writeStream().format("kafka")
                .option("kafka.bootstrap.servers", args[2])
                .option("kafka.linger.ms", "0")
                .option("topic", args[4])
                .option("checkpointLocation", args[5])
                .outputMode("update")
                .trigger(batches ? Trigger.ProcessingTime(0) : Trigger.RealTime(args[1]))
                .start();
        query.awaitTermination();
    }

    private static Dataset<Row> results(String job, Dataset<Row> events) {
        Dataset<Row> timed = events.withColumn("time", timestamp_millis(col("at")));
        return switch (job) {
            case "dedup" -> timed.withWatermark("time", "1 minute").dropDuplicates("id", "time")
                    .select(to_json(struct(col("id"))).as("value"));
            case "window" -> timed.withWatermark("time", "10 seconds")
                    .groupBy(window(col("time"), "1 minute").as("window"), col("user")).count()
                    .select(to_json(struct(col("user"), unix_millis(col("window.start")).as("start"), col("count")))
                            .as("value"));
            case "count" -> events.select("user").as(Encoders.STRING())
                    .groupByKey((MapFunction<String, String>) user -> user, Encoders.STRING())
                    .transformWithState(new Counter(), TimeMode.None(), OutputMode.Update(), Encoders.STRING())
                    .toDF("value");
            default -> throw new IllegalArgumentException("no job is called " + job);
        };
    }

    /** How many records of a key there were, said for each record. */
    static final class Counter extends StatefulProcessor<String, String, String> {
        private transient ValueState<Long> count;

        @Override
        public void init(OutputMode mode, TimeMode times) {
            count = getHandle().getValueState("count", Encoders.LONG(), TTLConfig.NONE());
        }

        @Override
        public Iterator<String> handleInputRows(String user, Iterator<String> rows, TimerValues timers) {
            long found = count.exists() ? count.get() : 0;
            List<String> out = new ArrayList<>();
            for (; rows.hasNext(); rows.next()) {
                out.add("{\"user\":\"" + user + "\",\"count\":" + ++found + "}");
            }
            count.update(found);
            return CollectionConverters.asScala(out.iterator());
        }
    }
}
