package peer;

import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Accounts, from Kafka to Kafka: records "id user cents", each of which is paid in, or paid out if the account has that much; a
 * result for each tells its id and the account behind it. With one topic an account's records have one order; with several they come
 * together as they come, and what is refused depends on that.
 *
 * <p>Arguments: brokers, topics (a comma between), topic of the results, exactly-once or at-least-once. Settings come from the
 * cluster that runs it.
 */
public final class Ledger {
    static final TypeInformation<Tuple2<String, String>> RESULT = Types.TUPLE(Types.STRING, Types.STRING);

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment job = StreamExecutionEnvironment.getExecutionEnvironment();
        DataStream<String> records = null;
        for (String topic : args[1].split(",")) {
            KafkaSource<String> source = KafkaSource.<String>builder()
                    .setBootstrapServers(args[0])
                    .setTopics(topic)
                    .setGroupId("ledger")
                    .setStartingOffsets(OffsetsInitializer.earliest())
                    .setValueOnlyDeserializer(new SimpleStringSchema())
                    .build();
            DataStream<String> these = job.fromSource(source, WatermarkStrategy.noWatermarks(), topic).uid(topic);
            records = records == null ? these : records.union(these);
        }
        records.keyBy(record -> record.split(" ")[1], Types.STRING)
                .process(new Account(), RESULT)
                .uid("accounts")
                .sinkTo(sink(args[0], args[2], args[3].equals("exactly-once")))
                .uid("results");
        job.execute("ledger");
    }

    private static KafkaSink<Tuple2<String, String>> sink(String brokers, String topic, boolean once) {
        return KafkaSink.<Tuple2<String, String>>builder()
                .setBootstrapServers(brokers)
                .setRecordSerializer(new ByUser(topic))
                .setDeliveryGuarantee(once ? DeliveryGuarantee.EXACTLY_ONCE : DeliveryGuarantee.AT_LEAST_ONCE)
                .setTransactionalIdPrefix(topic)
                .setProperty("transaction.timeout.ms", "600000")
                .build();
    }

    /** Results of a user go to one partition. */
    private record ByUser(String topic) implements KafkaRecordSerializationSchema<Tuple2<String, String>> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(Tuple2<String, String> result, KafkaSinkContext context, Long timestamp) {
            return new ProducerRecord<>(topic, bytes(result.f0), bytes(result.f1));
        }

        private static byte[] bytes(String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
    }

    /** What a user has. */
    static final class Account extends KeyedProcessFunction<String, String, Tuple2<String, String>> {
        private transient ValueState<Long> account;

        @Override
        public void open(OpenContext context) {
            account = getRuntimeContext().getState(new ValueStateDescriptor<>("account", Types.LONG));
        }

        @Override
        public void processElement(String record, Context context, Collector<Tuple2<String, String>> out) throws Exception {
            String[] parts = record.split(" ");
            Long before = account.value();
            long there = before == null ? 0 : before;
            long cents = Long.parseLong(parts[2]);
            long behind = there + cents < 0 ? there : there + cents;
            account.update(behind);
            String result = String.format("{\"id\":%s,\"user\":\"%s\",\"cents\":%d}", parts[0], parts[1], behind);
            out.collect(Tuple2.of(parts[1], result));
        }
    }

    private Ledger() {}
}
