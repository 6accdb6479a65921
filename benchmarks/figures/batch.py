"""The batch runner beside hand-written PySpark jobs for the same result, in one session, and the Spark audit
of a large history.

    python benchmarks batch                              # the inverted index of 6,000 documents, about 1
                                                         million results
    python benchmarks batch --audit 100000000            # a history of 100 million items is written, audit
                                                         --spark compares it

The result is every change of every posting list, (word, document, positions, documents so far), in order
within a word. It is written
 by hand: with DataFrames, a Python tokenizer and a window function in the JVM; the same with a Python
 function a word; and with RDDs.
All write files sorted as ours are. Runs alternate; the medians and the ratio are printed, and the load when
they began.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import workload
from harness import BENCHMARKS, JOBS
from harness.corpus import documents

from flamestream.audit.reference_rows import ReferenceJob, rows_of
from flamestream.connectors import sources
from flamestream.connectors.files.chunks import chunks_of
from flamestream.connectors.files.pieces import Stamps
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, Slot, SourceName
from flamestream.model.meta import Meta, meta_of
from flamestream.model.slot import slot_of
from flamestream.model.time import FrontId
from flamestream.spark.frames.batch import partitions_for, run_batch
from flamestream.spark.frames.consumer import TaskConsumer
from flamestream.spark.frames.inputs import Input, pieces_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.job_graph import ByValue, FromFile
from flamestream.spark.frames.session import frames_settings, session_of
from flamestream.spark.streaming.session import SparkDriver
from flamestream.spark.tables.history import Due, History

# --- by hand ------------------------------------------------------------------------------------------------


def tokenized(batches: Iterable[Any]) -> Iterator[Any]:
    """Lines to (document, place, word, positions): what the DataFrame job does in Python."""
    import pyarrow as pa

    for batch in batches:
        columns: tuple[list[Any], ...] = ([], [], [], [])
        for line in batch.column(0).to_pylist():
            number, _, text = line.partition("\t")
            positions: dict[str, list[int]] = {}
            for place, word in enumerate(text.split()):
                positions.setdefault(word, []).append(place)
            columns[0].extend([int(number)] * len(positions))
            columns[1].extend(range(len(positions)))
            columns[2].extend(positions)
            columns[3].extend(positions.values())
        kinds = (pa.int64(), pa.int32(), pa.string(), pa.list_(pa.int32()))
        yield pa.record_batch(
            [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)],
            names=["document", "place", "word", "positions"],
        )


def with_dataframes(spark: Any, file: Path, out: Path, partitions: int) -> None:
    """The DataFrame job: tokenizer in Python, the count as a window function."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    words = spark.read.text(str(file)).mapInArrow(
        tokenized, "document long, place int, word string, positions array<int>"
    )
    order = Window.partitionBy("word").orderBy("document")
    index = words.repartition(partitions, "word").withColumn("documents", F.row_number().over(order))
    index.sortWithinPartitions("document", "place").drop("place").write.parquet(str(out))


def with_rdds(spark: Any, file: Path, out: Path, partitions: int) -> None:
    """The RDD job: Python functions throughout, typed payloads, sorted by key and order in the shuffle."""
    from pyspark.rdd import portable_hash

    def postings(line: str) -> Iterator[tuple[tuple[str, int, int], tuple[int, ...]]]:
        for place, posting in enumerate(workload.words(line)):
            yield (posting.word, posting.document, place), posting.positions

    def changes(rows: Iterable[Any]) -> Iterator[tuple[int, int, workload.Change]]:
        current, count = None, 0
        for (word, document, place), positions in rows:
            count = count + 1 if word == current else 1
            current = word
            yield document, place, workload.Change(word, document, positions, count)

    lines = spark.sparkContext.textFile(str(file), spark.sparkContext.defaultParallelism)
    placed = lines.flatMap(postings).repartitionAndSortWithinPartitions(
        partitions, lambda key: portable_hash(key[0])
    )
    ordered = placed.mapPartitions(changes).mapPartitions(lambda rows: sorted(rows, key=lambda row: row[:2]))
    ordered.map(
        lambda row: json.dumps([row[2].word, row[2].document, row[2].positions, row[2].documents])
    ).saveAsTextFile(str(out))


def folded(rows: Any) -> Any:
    """One word's postings, in the order of documents, with a Python function for each: what applyInArrow
    gets."""
    import pyarrow as pa

    ordered = rows.sort_by("document")
    index: list[Any] = []
    for word, document, positions in zip(
        *(ordered[name].to_pylist() for name in ("word", "document", "positions")), strict=True
    ):
        index.append((document, positions))
        change = workload.Change(word, document, tuple(positions), len(index))
        ordered_count = change.documents
        index[-1] = (document, positions, ordered_count)
    return ordered.append_column("documents", pa.array([entry[2] for entry in index], pa.int32()))


def with_groups(spark: Any, file: Path, out: Path, partitions: int) -> None:
    """The DataFrame job with a Python function a word instead of a window in the JVM."""
    words = spark.read.text(str(file)).mapInArrow(
        tokenized, "document long, place int, word string, positions array<int>"
    )
    groups = words.repartition(partitions, "word").groupBy("word")
    index = groups.applyInArrow(
        folded, "document long, place int, word string, positions array<int>, documents int"
    )
    index.sortWithinPartitions("document", "place").drop("place").write.parquet(str(out))


# --- ours ---------------------------------------------------------------------------------------------------


def job_of(
    name: str, graph: Any, source: str, spec: dict[str, Any], vertex: int, out: Path, sink: str
) -> FrameJob:
    """A job with one source and one files sink."""
    traits = sources.describe(spec)
    front = FrontSettings(FrontId(0), SourceName(source), traits.timed, traits.run_length, traits.replayable)
    files = {sink: {"files": {"path": str(out)}}}
    return FrameJob(
        name, graph, 256, (Input(vertex, RecordedSource(name, front, spec), traits.bounded),), files
    )


def with_flamestream(spark: Any, file: Path, out: Path, partitions: int) -> None:
    """The batch runner."""
    spec = {"files": {"path": str(file), "records": "lines"}}
    job = job_of("index", FromFile(str(JOBS / "workload.py"), "graph"), "docs", spec, 0, out, "index")
    report = run_batch(spark, job, 1, partitions)
    assert not report.problem and report.delivered, report


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and its descendants, the ended ones included."""
    ticks = 0
    todo = [pid]
    while todo:
        each = todo.pop()
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            todo += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
            todo += [
                int(c)
                for t in Path(f"/proc/{each}/task").iterdir()
                if t.name != str(each)
                for c in (t / "children").read_text().split()
            ]
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def compare(spark: Any, jvm: int, folder: Path, args: argparse.Namespace) -> None:
    """Each job once to warm up, then `--times` times in turn."""
    file = folder / "docs.tsv"
    file.write_text("\n".join(documents(args.documents)) + "\n")
    small = folder / "small.tsv"
    small.write_text("\n".join(documents(200)) + "\n")
    jobs: dict[str, Callable[[Any, Path, Path, int], None]] = {
        "flamestream": with_flamestream, "dataframes": with_dataframes, "groups": with_groups,
        "rdds": with_rdds,
    }  # fmt: skip
    partitions = spark.sparkContext.defaultParallelism
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    cpu: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(args.times + 1):
        for name, job in jobs.items():
            out = folder / f"out-{name}"
            shutil.rmtree(out, ignore_errors=True)
            began, used = time.perf_counter(), cpu_of(jvm)
            job(spark, small if number == 0 else file, out, partitions)
            if number:
                seconds[name].append(time.perf_counter() - began)
                cpu[name].append(cpu_of(jvm) - used)
    used_up = {name: statistics.median(took) for name, took in cpu.items()}
    medians = {name: statistics.median(took) for name, took in seconds.items()}
    results = spark.read.parquet(str(folder / "out-dataframes")).count()
    print(
        json.dumps(
            {
                "documents": args.documents,
                "results": results,
                "seconds": {name: [round(s, 1) for s in took] for name, took in seconds.items()},
                "CPU seconds": {name: round(took, 1) for name, took in used_up.items()},
                "CPU ratios": {
                    name: round(used_up["flamestream"] / took, 2)
                    for name, took in used_up.items()
                    if name != "flamestream"
                },
                "ratio to dataframes": round(medians["flamestream"] / medians["dataframes"], 2),
                "ratio to groups": round(medians["flamestream"] / medians["groups"], 2),
                "ratio to rdds": round(medians["flamestream"] / medians["rdds"], 2),
                "results/s": round(results / medians["flamestream"]),
            }
        )
    )


# --- the audit ----------------------------------------------------------------------------------------------


KEYS = 100_003
SLOTS = 256
HELD = 1 << 16


def remainder(number: int) -> int:
    return number % KEYS


def plus_one(count: int, _: int) -> int:
    return count + 1


def with_count(count: int, number: int) -> tuple[int, int]:
    return number, count


def history(folder: Path, items: int) -> None:
    """What a run would have delivered, written straight into the sink: 1.5 us an item, and by other code than
    what the audit computes."""
    stamps = Stamps(FrontId(0), sources.describe({"generator": {"count": items}}).run_length)
    with TaskConsumer(
        {"files": {"path": str(folder)}}, "counts", "writer", "counts", Fence(Attempt(1), LayoutVersion(1))
    ) as consumer:
        consumer.open(range(SLOTS))
        sequences = [0] * SLOTS
        for first in range(0, items, HELD):
            waiting: dict[int, tuple[list[bytes], Meta]] = {}
            for time_, place, numbers in stamps.cut(first, range(first, min(first + HELD, items))):
                for index, number in enumerate(numbers, place):
                    meta, payload = meta_of(time_, index), (number, number // KEYS + 1)
                    held, _ = waiting.get(key := slot_of(codec.encode(payload), SLOTS), ([], meta))
                    held.append(codec.encode_item(meta, payload))
                    waiting[key] = held, meta
            for slot in waiting:
                sequences[slot] += 1
            bundles = [
                Bundle(Slot(slot), SequenceNumber(sequences[slot]), last, codec.join_items(held))
                for slot, (held, last) in sorted(waiting.items())
            ]
            consumer.deliver(bundles)


class Peaks(threading.Thread):
    """The largest memory seen of this process and those below it, in MB: pages that several share are counted
    once (PSS)."""

    def __init__(self, jvm: int) -> None:
        super().__init__(daemon=True)
        self.seen: dict[str, int] = {}
        self._jvm, self._ended = jvm, threading.Event()

    def run(self) -> None:
        while not self._ended.wait(1):
            sizes = {pid: size for pid in below(os.getpid()) if (size := pss_of(pid))}
            now = {"driver": sizes.pop(os.getpid(), 0), "JVM": sizes.pop(self._jvm, 0)}
            now |= {
                "Python of tasks": sum(sizes.values()),
                "largest Python of a task": max(sizes.values(), default=0),
            }
            for name, size in now.items():
                self.seen[name] = max(size, self.seen.get(name, 0))

    def end(self) -> dict[str, int]:
        self._ended.set()
        self.join()
        return self.seen


def below(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for each in found:
        with suppress(OSError):
            found += [
                int(child)
                for task in Path(f"/proc/{each}/task").iterdir()
                for child in (task / "children").read_text().split()
            ]
    return found


def pss_of(pid: int) -> int:
    """MB; 0 if it is gone."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) >> 10
    return 0


def audit(spark: Any, jvm: int, folder: Path, items: int) -> None:
    """`items` results of as many numbers are written; then the audit compares them."""
    graph = Graph("counts")
    graph.source("numbers").reduce(key=remainder, initial=int, combine=plus_one, emit=with_count).sink(
        "counts"
    )
    out = folder / "counts"
    began = time.perf_counter()
    history(out, items)
    print(json.dumps({"history seconds": round(time.perf_counter() - began, 1)}), flush=True)
    job = job_of("counts", ByValue.of(graph), "numbers", {"generator": {"count": items}}, 0, out, "counts")
    began, used, peaks = time.perf_counter(), cpu_of(jvm), Peaks(jvm)
    peaks.start()
    sinks = {number: place.name for number, place in job.sink_places().items()}
    held = History(spark, sinks, [(number, chunk) for number in sinks for chunk in chunks_of(out)])
    pieces = pieces_of(spark, job.inputs)
    meaning, count = (
        ReferenceJob(job.graph, job.slots, fail=True),
        partitions_for(spark, job.slots, len(pieces)),
    )
    found = held.compared(rows_of(spark, meaning, pieces, partitions=count), Due())
    took = time.perf_counter() - began
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    print(json.dumps({
        "items": found.delivered, "bytes": size, "audit seconds": round(took, 1),
        "CPU seconds": round(cpu_of(jvm) - used, 1), "audited items/s": round(found.delivered / took),
        "peak MB": peaks.end(), "lost": found.lost, "doubled": found.doubled, "foreign": found.foreign,
        "reordered": found.reordered, "load": os.getloadavg(),
    }))  # fmt: skip


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=6000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--audit", type=int, default=0, metavar="ITEMS")
    args = parser.parse_args()
    print(json.dumps({"load": os.getloadavg(), "cores": args.cores}))
    with tempfile.TemporaryDirectory(prefix="flamestream-bench-") as name:
        folder = Path(name)
        with SparkDriver(
            frames_settings(cores=args.cores, scratch=folder / "spark", python_path=(BENCHMARKS, JOBS))
        ) as driver:
            spark = session_of(driver)
            if args.audit:
                audit(spark, driver.jvm.pid, folder, args.audit)
            else:
                compare(spark, driver.jvm.pid, folder, args)


if __name__ == "__main__":
    main()
