package peer;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.StringTokenizer;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The benchmark's job: documents to postings, postings by word to changes of its list.
 *
 * <p>Arguments: source, sink, guarantee, parallelism, milliseconds between flushes of the direct sink, folder of pending transactions;
 * then any number of Flink's own settings as name=value.
 */
public final class InvertedIndex {
    static final TypeInformation<Tuple3<String, Integer, int[]>> POSTING =
            Types.TUPLE(Types.STRING, Types.INT, Types.PRIMITIVE_ARRAY(Types.INT));
    static final TypeInformation<Tuple2<Integer, int[]>> PLACE = Types.TUPLE(Types.INT, Types.PRIMITIVE_ARRAY(Types.INT));

    public static void main(String[] args) throws Exception {
        String guarantee = args[2];
        int parallelism = Integer.parseInt(args[3]);
        Configuration settings = new Configuration();
        for (int i = 6; i < args.length; i++) {
            int at = args[i].indexOf('=');
            settings.setString(args[i].substring(0, at), args[i].substring(at + 1));
        }
        settings.set(CoreOptions.DEFAULT_PARALLELISM, parallelism);
        // The cluster that runs it, or one in this process.
        StreamExecutionEnvironment job = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        // Tokenizing stays with the source, so that a posting crosses one exchange only; keyed work and delivery are one chain.
        var changes = job.fromSource(new SocketSource(args[0]), WatermarkStrategy.noWatermarks(), "docs", Types.STRING)
                .setParallelism(1)
                .flatMap(new Tokenize())
                .returns(POSTING)
                .setParallelism(1)
                .keyBy(posting -> posting.f0, Types.STRING)
                .process(new Index(), PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
        if (guarantee.equals("exactly-once")) {
            changes.sinkTo(new TransactionalSink(args[1], args[5]));
        } else {
            changes.sinkTo(new DirectSink(args[1], Long.parseLong(args[4])));
        }
        job.execute("inverted-index");
    }

    /** A posting for each distinct word. */
    static final class Tokenize implements FlatMapFunction<String, Tuple3<String, Integer, int[]>> {
        @Override
        public void flatMap(String line, Collector<Tuple3<String, Integer, int[]>> out) {
            int tab = line.indexOf('\t');
            int document = Integer.parseInt(line.substring(0, tab));
            Map<String, int[]> found = new LinkedHashMap<>();
            StringTokenizer words = new StringTokenizer(line.substring(tab + 1), " ");
            for (int place = 0; words.hasMoreTokens(); place++) {
                int here = place;
                found.merge(words.nextToken(), new int[] {here}, (before, one) -> {
                    int[] more = java.util.Arrays.copyOf(before, before.length + 1);
                    more[before.length] = here;
                    return more;
                });
            }
            found.forEach((word, places) -> out.collect(Tuple3.of(word, document, places)));
        }
    }

    /** The posting list of each word, and its length. */
    static final class Index extends KeyedProcessFunction<String, Tuple3<String, Integer, int[]>, byte[]> {
        private transient ListState<Tuple2<Integer, int[]>> postings;
        private transient ValueState<Integer> length;

        @Override
        public void open(OpenContext context) {
            postings = getRuntimeContext().getListState(new ListStateDescriptor<>("postings", PLACE));
            length = getRuntimeContext().getState(new ValueStateDescriptor<>("length", Types.INT));
        }

        @Override
        public void processElement(Tuple3<String, Integer, int[]> posting, Context context, Collector<byte[]> out) throws Exception {
            postings.add(Tuple2.of(posting.f1, posting.f2));
            Integer before = length.value();
            int now = before == null ? 1 : before + 1;
            length.update(now);
            StringBuilder line = new StringBuilder(posting.f0).append('\t').append(posting.f1).append('\t').append(now).append('\t');
            for (int i = 0; i < posting.f2.length; i++) {
                line.append(i == 0 ? "" : ",").append(posting.f2[i]);
            }
            out.collect(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
        }
    }

    private InvertedIndex() {}
}
