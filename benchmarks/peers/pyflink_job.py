"""PyFlink: the job's functions in Python, its source and sinks those of the Java job (peers/flink).

python benchmarks/peers/pyflink_job.py JAR SOURCE SINK GUARANTEE PARALLELISM FLUSH_MS PENDING [SETTING=VALUE
...]
"""

import sys
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink, Source
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from text import change, words

POSTING = Types.TUPLE([Types.STRING(), Types.INT(), Types.PICKLED_BYTE_ARRAY()])


class Index(KeyedProcessFunction):
    """The posting list of each word, and its length."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._postings = runtime_context.get_list_state(
            ListStateDescriptor("postings", Types.PICKLED_BYTE_ARRAY())
        )
        self._length = runtime_context.get_state(ValueStateDescriptor("length", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[bytes]:
        word, document, positions = value
        self._postings.add((document, positions))
        length = (self._length.value() or 0) + 1
        self._length.update(length)
        yield change(word, document, length, positions)


def main() -> None:
    jar, source, sink, guarantee, parallelism, flush, pending, *settings = sys.argv[1:]
    configuration = Configuration()
    for setting in settings:
        name, _, value = setting.partition("=")
        configuration.set_string(name, value)
    job = StreamExecutionEnvironment.get_execution_environment(configuration)
    job.add_jars(f"file://{jar}")
    job.set_parallelism(int(parallelism))
    peer = get_gateway().jvm.peer
    lines = job.from_source(
        Source(peer.SocketSource(source)), WatermarkStrategy.no_watermarks(), "docs", Types.STRING()
    )
    postings = lines.set_parallelism(1).flat_map(words, POSTING).set_parallelism(1)
    changes = postings.key_by(lambda posting: posting[0], Types.STRING()).process(
        Index(), Types.PRIMITIVE_ARRAY(Types.BYTE())
    )
    two_phases = guarantee == "exactly-once"
    changes.sink_to(
        Sink(peer.TransactionalSink(sink, pending) if two_phases else peer.DirectSink(sink, int(flush)))
    )
    job.execute("inverted-index")


if __name__ == "__main__":
    main()
