"""Where a micro-batch keeps its state: segments by foreachBatch (our runner), or Spark's state store by
transformWithState.

    python benchmarks microbatch                 # 12 batches of 6,400 numbers, 2,000 keys

Both fold the same rows with the same Python functions and differ in where the state of a key is between
batches. The runner also delivers to a files sink and commits an epoch; transformWithState (RocksDB state
store, row form) writes to a no-op sink, so the comparison favours it. transformWithState needs the package
protobuf, which nothing else here does.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness import BENCHMARKS, JOBS

from figures.batch import job_of, plus_one, with_count
from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.job_record import JobRecord
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START
from flamestream.spark.frames.commit import Committed
from flamestream.spark.frames.microbatch import MicroBatches
from flamestream.spark.frames.runs_source import source_for
from flamestream.spark.frames.session import frames_settings, session_of
from flamestream.spark.streaming.session import SparkDriver

RUN = 64
KEYS = 2000


def key_of(number: int) -> int:
    return number * 7919 % KEYS


def counting() -> Graph:
    graph = Graph("counting")
    graph.source("numbers").reduce(key=key_of, initial=int, combine=plus_one, emit=with_count).sink("counts")
    return graph


class Fold:
    """What transformWithState calls: the same fold, its accumulator in a ValueState."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("accumulator", "value binary")

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        from pyspark.sql import Row

        before = self._state.get()
        accumulator = codec.decode(bytes(before[0])) if before is not None else 0
        for _, payload in sorted((bytes(row.meta), bytes(row.payload)) for row in rows):
            number = codec.decode(payload)
            accumulator = plus_one(accumulator, number)
            yield Row(key=bytearray(key[0]), payload=bytearray(codec.encode(with_count(accumulator, number))))
        self._state.update((bytearray(codec.encode(accumulator)),))

    def close(self) -> None:
        """Nothing is held."""


def with_runner(spark: Any, folder: Path, batches: int, runs: int) -> dict[str, Any]:
    graph = counting()
    job = _job(graph, folder, batches * runs * RUN)
    name = WorkerId("b")
    layout = Layout(LayoutVersion(1), (name,) * job.slots, (name,), name)
    record = JobRecord(
        attempt=Attempt(1),
        layout=layout,
        announced=Epoch(0),
        committed=Epoch(0),
        cut=START,
        index="",
        index_hash="",
        job="counting",
    )
    began: list[float] = []
    settings = Settings(
        job="counting", graph=graph.identity, python="3", workers=1, fronts=1, slots=job.slots,
        inventory=inventory_of(graph),
    )  # fmt: skip
    committed = Committed(
        record, lambda _: began.append(time.perf_counter()), str(folder / "store"), graph, settings
    )
    query = MicroBatches(
        spark, job, committed, folder / "checkpoint", interval=0.001, most_runs=runs, looked=lambda: None
    )
    query.run()
    return _figures([later - earlier for earlier, later in pairwise(began)])


def with_state_store(spark: Any, folder: Path, batches: int, runs: int) -> dict[str, Any]:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    job = _job(counting(), folder, batches * runs * RUN)
    source = source_for(job, job.meaning(), runs, None)
    spark.dataSource.register(source)
    rows = spark.readStream.format(source.name()).load()
    processor = type("Processor", (Fold, StatefulProcessor), {})()
    folded = rows.groupBy("key").transformWithState(processor, "key binary, payload binary", "append", "none")
    query = (
        folded.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(folder / "store-checkpoint"))
    )
    running = query.trigger(processingTime="1 milliseconds").start()
    deadline = time.monotonic() + 600
    while (
        time.monotonic() < deadline
        and running.isActive
        and len([p for p in running.recentProgress if p.numInputRows]) < batches
    ):
        time.sleep(0.2)
    took = [p.durationMs["triggerExecution"] / 1000 for p in running.recentProgress if p.numInputRows]
    failed = running.exception()
    running.stop()
    if failed is not None:
        raise failed
    return _figures(took[1:])


def _job(graph: Graph, folder: Path, count: int) -> Any:
    from flamestream.spark.frames.job_graph import ByValue

    return job_of(
        "counting",
        ByValue.of(graph),
        "numbers",
        {"generator": {"count": count}},
        0,
        folder / "counts",
        "counts",
    )


def _figures(seconds: list[float]) -> dict[str, Any]:
    ordered = sorted(seconds)
    return {
        "batches": len(ordered),
        "median seconds": round(ordered[len(ordered) // 2], 2),
        "slowest": round(ordered[-1], 2),
    }


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--runs", type=int, default=100, help="of 64 numbers, a batch")
    args = parser.parse_args()
    print(json.dumps({"load": os.getloadavg(), "numbers a batch": args.runs * RUN, "keys": KEYS}))
    with tempfile.TemporaryDirectory(prefix="flamestream-bench-") as name:
        folder = Path(name)
        with SparkDriver(
            frames_settings(cores=2, scratch=folder / "spark", python_path=(BENCHMARKS, JOBS))
        ) as driver:
            spark = session_of(driver)
            for form in (with_runner, with_state_store):
                (folder / form.__name__).mkdir()
                print(
                    json.dumps({form.__name__: form(spark, folder / form.__name__, args.batches, args.runs)}),
                    flush=True,
                )


if __name__ == "__main__":
    main()
