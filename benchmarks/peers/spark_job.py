"""Spark Structured Streaming in Python: a Python data source reads the socket, transformWithState keeps the
lists, a foreach writer sends.

python benchmarks/peers/spark_job.py SOURCE SINK CHECKPOINT PARTITIONS TRIGGER_MS
"""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming import StatefulProcessor
from text import change, connect, words

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BUCKETS = 8
POSTING = "word string, document int, positions array<int>"


class Reader(SimpleDataSourceStreamReader):
    """What has come, batch by batch; what a batch was made of can be read again from the producer."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket: Any = None
        self._rest = b""

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[str]], dict[str, int]]:
        if self._socket is None:
            self._open(start["next"])
        try:
            while piece := self._socket.recv(1 << 20):
                self._rest += piece
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        return iter([(line.decode(),) for line in lines]), {"next": start["next"] + len(lines)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[str]]:
        again = connect(self._address)
        again.sendall(b"%d\n" % start["next"])
        file = again.makefile("rb")
        return iter([(file.readline().decode().rstrip("\n"),) for _ in range(end["next"] - start["next"])])

    def _open(self, first: int) -> None:
        self._socket = connect(self._address)
        self._socket.sendall(b"%d\n" % first)
        self._socket.setblocking(False)


class Lines(DataSource):
    """The producer's lines."""

    @classmethod
    def name(cls) -> str:
        return "lines"

    def schema(self) -> str:
        return "line string"

    def simpleStreamReader(self, schema: Any) -> Reader:
        return Reader(self.options["address"])


class Index(StatefulProcessor):
    """The posting lists of a bucket of words.

    Each access to state asks the JVM, and takes about a millisecond; so a batch asks three times a bucket and
    not three times a word: the lengths are one value, and the postings are appended all at once.
    """

    def init(self, handle: Any) -> None:
        self._postings = handle.getListState("postings", POSTING)
        self._lengths = handle.getValueState("lengths", "lengths string")

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        before = self._lengths.get()
        lengths = json.loads(before[0]) if before is not None else {}
        found = sorted(
            ((row.word, row.document, row.positions) for row in rows), key=lambda posting: posting[1]
        )
        out = []
        for word, document, positions in found:
            lengths[word] = lengths.get(word, 0) + 1
            out.append(change(word, document, lengths[word], positions))
        self._postings.appendList(found)
        self._lengths.update((json.dumps(lengths),))
        yield Row(lines=b"".join(out).decode())

    def close(self) -> None:
        """Nothing is held."""


class Writer:
    """A partition of a batch, sent when it is complete."""

    def __init__(self, address: str) -> None:
        self._address = address

    def open(self, partition: int, epoch: int) -> bool:
        self._lines: list[str] = []
        return True

    def process(self, row: Any) -> None:
        self._lines.append(row.lines)

    def close(self, error: Exception | None) -> None:
        if error is None and self._lines:
            connection = connect(self._address)
            connection.sendall("".join(self._lines).encode())
            connection.close()


def main() -> None:
    source, sink, checkpoint, partitions, trigger = sys.argv[1:]
    builder = SparkSession.builder.master(f"local[{partitions}]").config(
        "spark.sql.shuffle.partitions", partitions
    )
    builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKS).config(
        "spark.ui.enabled", "false"
    )
    builder = builder.config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    builder = builder.config("spark.sql.streaming.noDataMicroBatches.enabled", "false").config(
        "spark.driver.memory", "3g"
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")  # else a line a new key
    spark.dataSource.register(Lines)
    lines = spark.readStream.format("lines").option("address", source).load()

    def tokenized(rows: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in rows:
            found = [posting for line in batch.column(0).to_pylist() for posting in words(line)]
            columns = (
                zip(*((crc32(word.encode()) % BUCKETS, word, *rest) for word, *rest in found), strict=True)
                if found
                else [[]] * 4
            )
            types = (pyarrow.int32(), pyarrow.string(), pyarrow.int32(), pyarrow.list_(pyarrow.int32()))
            arrays = [pyarrow.array(list(column), kind) for column, kind in zip(columns, types, strict=True)]
            yield pyarrow.RecordBatch.from_arrays(arrays, names=["bucket", "word", "document", "positions"])

    postings = lines.mapInArrow(tokenized, f"bucket int, {POSTING}")
    changes = postings.groupBy("bucket").transformWithState(Index(), "lines string", "append", "none")
    query = (
        changes.writeStream.foreach(Writer(sink))
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
    )
    query.trigger(processingTime=f"{trigger} milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main()
