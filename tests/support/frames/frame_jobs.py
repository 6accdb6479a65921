"""Jobs over a file of lines for the DataFrame runners, without a command line: what they deliver, and what
the reference gives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from flamestream.connectors import sinks, sources
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, SourceName, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.stream import Stream
from flamestream.model.time import END, START, FrontId
from flamestream.reference import ERRORS, interpret
from flamestream.spark.frames.batch import BatchReport, run_batch
from flamestream.spark.frames.commit import Committed
from flamestream.spark.frames.inputs import Input
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.job_graph import ByValue
from flamestream.spark.frames.microbatch import MicroBatches, Totals
from support.core.coordinating import settings
from support.frames.session import spark_session
from support.records import Records

SLOTS = 16
DEAD = "dead"


def pair(line: str) -> tuple[str, str]:
    """`key value`, as the simulator's stages want it."""
    key, _, value = line.partition(" ")
    return key, value


def graph_of(*stages: Callable[[Stream[Any]], Stream[Any]], sources: int = 2) -> Graph:
    graph = Graph("frames")
    streams = [graph.source(f"s{number}").map(pair) for number in range(sources)]
    stream = streams[0].merge(*streams[1:]) if sources > 1 else streams[0]
    for stage in stages:
        stream = stage(stream)
    stream.sink("out", key=lambda payload: payload[0])
    return graph


def lines(seed: int, count: int, keys: str = "abcde") -> str:
    rng = Random(seed)
    return "".join(f"{rng.choice(keys)} {number}\n" for number in range(count))


@dataclass(slots=True)
class Site:
    """A job's folder."""

    path: Path
    graph: Graph
    dead_letter: str | None = DEAD
    texts: list[str] = field(default_factory=list)
    documents: bool = False
    """Sources are folders of documents instead of files of lines."""
    records: Records = field(default_factory=Records)

    def __post_init__(self) -> None:
        for number, text in enumerate(self.texts):
            (self.path / f"s{number}.txt").write_text(text)

    @property
    def job(self) -> FrameJob:
        inputs = []
        for number, vertex in enumerate(self.graph.sources):
            lines = {"path": str(self.path / f"{vertex.name}.txt"), "records": "lines"}
            spec = {"files": {"path": str(self.path / vertex.name)} if self.documents else lines}
            traits = sources.describe(spec)
            front = FrontSettings(
                FrontId(number), SourceName(vertex.name), traits.timed, 2, traits.replayable
            )
            inputs.append(Input(vertex.id, RecordedSource("frames", front, spec), traits.bounded))
        names = [vertex.name for vertex in self.graph.sinks] + (
            [self.dead_letter] if self.dead_letter else []
        )
        places = {name: {"files": {"path": str(self.path / name), "fsync": False}} for name in names}
        return FrameJob("frames", ByValue.of(self.graph), SLOTS, tuple(inputs), places, self.dead_letter)

    def expected(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """By the reference interpreter, which reads the sources as the streaming engine does."""
        runs = sorted(
            (run for each in self.job.inputs for run in each.source.below(END)), key=lambda run: run[0]
        )
        results = interpret(self.graph, runs, on_error="dead-letter" if self.dead_letter else "fail")
        errors = results.pop(ERRORS)
        if self.dead_letter:
            results[self.dead_letter] = errors
        return {
            name: [(bytes(meta), codec.encode(value)) for meta, value in items]
            for name, items in results.items()
        }

    def delivered(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """What the sinks hold."""
        return {
            name: [(bytes(meta), codec.encode(value)) for meta, _, _, value in sinks.read(spec)]
            for name, spec in self.job.sinks.items()
        }

    def batch(self, attempt: int = 1) -> BatchReport:
        return run_batch(spark_session(), self.job, attempt, 2)

    def micro_batches(
        self, *, most_runs: int = 3, spoil: Callable[[JobRecord], None] = lambda record: None
    ) -> MicroBatches:
        """The next attempt's query. `spoil` sees each record before it is written, and may raise."""
        records = self.records
        found = records.read()
        layout = Layout(LayoutVersion(1), (WorkerId("b"),) * SLOTS, (WorkerId("b"),), WorkerId("b"))
        if found is None:
            empty: dict[str, Any] = {
                "announced": Epoch(0),
                "committed": Epoch(0),
                "cut": START,
                "index": "",
                "index_hash": "",
            }
            record = JobRecord(attempt=Attempt(1), layout=layout, job="frames", **empty)
        else:
            record = msgspec.structs.replace(found[0], attempt=Attempt(found[0].attempt + 1))
        version = records.compare_and_set(record, None if found is None else found[1])

        def write(new: JobRecord) -> None:
            nonlocal version
            spoil(new)
            version = records.compare_and_set(new, version)
            assert version is not None

        committed = Committed(
            record,
            write,
            str(self.path / "store"),
            self.graph,
            settings(
                job="frames",
                graph=self.graph.identity,
                inventory=inventory_of(self.graph),
                python="3",
                slots=SLOTS,
            ),
        )
        return MicroBatches(
            spark_session(),
            self.job,
            committed,
            self.path / "spark",
            interval=0.01,
            most_runs=most_runs,
            looked=lambda: None,
        )

    def run(self, **changes: Any) -> Totals:
        return self.micro_batches(**changes).run()
