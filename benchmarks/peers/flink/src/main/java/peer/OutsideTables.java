package peer;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.RuntimeContextInitializationContextAdapters;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.connector.format.EncodingFormat;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DeserializationFormatFactory;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.factories.SerializationFormatFactory;
import org.apache.flink.table.types.DataType;

/**
 * The benchmark's producer and consumer as tables: 'connector' = 'outside'.
 *
 * <p>As a source, lines of a socket that can be read again from any number on. As a sink, in two phases: a change a line, which begins
 * with its kind (+I, -U, +U, -D).
 */
public final class OutsideTables implements DynamicTableSourceFactory, DynamicTableSinkFactory {
    private static final ConfigOption<String> ADDRESS = ConfigOptions.key("address").stringType().noDefaultValue();
    private static final ConfigOption<String> FOLDER = ConfigOptions.key("folder").stringType().defaultValue("");

    @Override
    public String factoryIdentifier() {
        return "outside";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(ADDRESS, FactoryUtil.FORMAT);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(FOLDER);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        DecodingFormat<DeserializationSchema<RowData>> format =
                helper.discoverDecodingFormat(DeserializationFormatFactory.class, FactoryUtil.FORMAT);
        helper.validate();
        return new Source(helper.getOptions().get(ADDRESS), format, context.getPhysicalRowDataType());
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        EncodingFormat<SerializationSchema<RowData>> format =
                helper.discoverEncodingFormat(SerializationFormatFactory.class, FactoryUtil.FORMAT);
        helper.validate();
        return new Sink(helper.getOptions().get(ADDRESS), helper.getOptions().get(FOLDER), format, context.getPhysicalRowDataType());
    }

    private record Source(String address, DecodingFormat<DeserializationSchema<RowData>> format, DataType type)
            implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext scan) {
            DeserializationSchema<RowData> schema = format.createRuntimeDecoder(scan, type);
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(ProviderContext context, StreamExecutionEnvironment job) {
                    return job.fromSource(new SocketSource(address), WatermarkStrategy.noWatermarks(), "events", Types.STRING)
                            .setParallelism(1)
                            .map(new Decode(schema), schema.getProducedType())
                            .setParallelism(1);
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "outside";
        }
    }

    private record Sink(String address, String folder, EncodingFormat<SerializationSchema<RowData>> format, DataType type)
            implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return requested;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(DynamicTableSink.Context sink) {
            SerializationSchema<RowData> schema = format.createRuntimeEncoder(sink, type);
            return new DataStreamSinkProvider() {
                @Override
                public DataStreamSink<?> consumeDataStream(ProviderContext context, DataStream<RowData> rows) {
                    return rows.map(new Encode(schema), PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                            .sinkTo(new TransactionalSink(address, folder));
                }
            };
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "outside";
        }
    }

    private static final class Decode extends RichMapFunction<String, RowData> {
        private final DeserializationSchema<RowData> schema;

        Decode(DeserializationSchema<RowData> schema) {
            this.schema = schema;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            schema.open(RuntimeContextInitializationContextAdapters.deserializationAdapter(getRuntimeContext()));
        }

        @Override
        public RowData map(String line) throws Exception {
            return schema.deserialize(line.getBytes(StandardCharsets.UTF_8));
        }
    }

    private static final class Encode extends RichMapFunction<RowData, byte[]> {
        private final SerializationSchema<RowData> schema;

        Encode(SerializationSchema<RowData> schema) {
            this.schema = schema;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            schema.open(RuntimeContextInitializationContextAdapters.serializationAdapter(getRuntimeContext()));
        }

        @Override
        public byte[] map(RowData row) {
            byte[] kind = row.getRowKind().shortString().getBytes(StandardCharsets.UTF_8);
            byte[] fields = schema.serialize(row);
            byte[] line = new byte[kind.length + fields.length + 1];
            System.arraycopy(kind, 0, line, 0, kind.length);
            System.arraycopy(fields, 0, line, kind.length, fields.length);
            line[line.length - 1] = '\n';
            return line;
        }
    }
}
