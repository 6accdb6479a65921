"""What a run has left: input, journal, output and last commit of a small job, made up here so that each of
them can be damaged.

    past = finished()                             # or going_on(): committed up to a cut, delivered further
    past.given[3].pop()                           # any change of `lines`, `entries`, `given`, `positions`
    job = past.leave(folder, files_sink(folder))  # input, journal and a real sink, as a run leaves them

The expectation is not the reference interpreter's: a line's result is how many lines of its word there were
so far, counted here in other words than a graph's.

Keeps: undamaged, it is a run that the engine could have had: two workers, bundles in the order of their
numbers, a journal that counts. Does not: run anything, or know what an audit says.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from flamestream.audit.code_span import SpanAnswer, SpanRequest, answered
from flamestream.audit.committed import LastCommit
from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, Entry, SinkOpened
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import FrontPosition, SnapshotIndex
from flamestream.job.manifest import read
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.journal.file import head, record
from flamestream.journal.seal import FrontFolder
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.layout import Layout
from flamestream.model.meta import Meta, meta_of
from flamestream.model.payload import encode, encode_items, encode_many
from flamestream.model.slot import slot_of
from flamestream.model.time import END, START, FrontId, Time, Timestamp, time_of
from flamestream.store.folder import LocalStore
from flamestream.testing.port_driver import PortDriver

JOB, SINK, SOURCE = "words", "counts", "lines"
FRONT = FrontId(0)
FENCE = Fence(Attempt(1), LayoutVersion(1))
SLOTS = 16
WORDS = ("ash", "birch", "cedar", "elm", "fir", "larch", "oak", "pine", "rowan", "yew")
WORKERS = {
    WorkerId("w0"): tuple(Slot(slot) for slot in range(SLOTS) if slot % 2),
    WorkerId("w1"): tuple(map(Slot, range(0, SLOTS, 2))),
}
"""Who has which slots."""
APPLICATION = """\
import flamestream as fs

graph = fs.Graph("words")
words = graph.source("lines").reduce(
    key=lambda line: line.split()[0],
    initial=int,
    combine=lambda count, line: count + 1,
    emit=lambda count, line: (line.split()[0], count),
)
words.sink("counts", key=lambda pair: pair[0])
"""
Kind = Literal["followed", "socket", "timed"]
_SOURCES: dict[Kind, dict[str, Any]] = {
    "followed": {"files": {"path": "in", "records": "lines", "follow": True}},
    "socket": {"socket": {"address": "127.0.0.1:1"}},
    "timed": {"files": {"path": "in", "records": "lines"}},
}
_PARTITIONS: dict[Kind, str] = {"followed": "lines.txt", "socket": "", "timed": ""}


class Given(NamedTuple):
    """A result that a consumer was given."""

    meta: Meta
    slot: Slot
    payload: Any


def run_time(number: int) -> Time:
    """Of run `number`, from 0."""
    return time_of(Timestamp(number + 1), FRONT)


def slot_of_word(word: str) -> Slot:
    return slot_of(encode(word), SLOTS)


def results_of(lines: Iterable[str], length: int) -> list[list[Given]]:
    """What each run gives, if runs have `length` lines."""
    seen: Counter[str] = Counter()
    runs: list[list[Given]] = []
    for number, line in enumerate(lines):
        word = line.split()[0]
        seen[word] += 1
        if number % length == 0:
            runs.append([])
        meta = meta_of(run_time(number // length), number % length)
        runs[-1].append(Given(meta, slot_of_word(word), (word, seen[word])))
    return runs


@dataclass(slots=True)
class PastRun:
    """Everything of it, to be damaged before it is written."""

    kind: Kind
    length: int
    """Lines of a run."""
    lines: list[str]
    """What the source has now."""
    entries: list[Entry]
    """The journal."""
    given: list[list[Given]]
    """What consumers were given, a call a run: one bundle for each slot of it."""
    cut: Time = END
    outcome: str = "completed"
    epoch: int = 7
    committed: bool = True
    """False: it has a record, and has never committed an epoch."""
    positions: dict[str, int] = field(default_factory=dict)
    """Of the last commit: the first offset of each partition that is not below the cut."""
    last_stamp: Time = START
    """The last stamp below the cut."""
    guarantee: str = "exactly-once"
    held: frozenset[bytes] = frozenset()
    """Metas of output that the last epoch holds (`exactly-once-2pc`)."""

    # --- what was committed ---------------------------------------------------------------------------------

    def last_commit(self) -> LastCommit:
        """All of it."""
        return LastCommit(self.record(), self.index(), self.held, self.outcome)

    def record(self) -> JobRecord:
        """The job record."""
        owners = tuple(
            next(worker for worker, slots in WORKERS.items() if slot in slots) for slot in range(SLOTS)
        )
        layout = Layout(LayoutVersion(1), owners, (WorkerId("w0"),), WorkerId("w1"))
        return JobRecord(
            attempt=Attempt(1), layout=layout, announced=Epoch(self.epoch),
            committed=Epoch(self.epoch if self.committed else 0), cut=self.cut if self.committed else START,
            index="indexes/one" if self.committed else "", index_hash="", job=JOB,
            outcome=self.outcome if self.outcome == "completed" else "",
        )  # fmt: skip

    def index(self) -> SnapshotIndex | None:
        """That of the committed epoch, without state."""
        if not self.committed:
            return None
        offsets = {Partition(name): Offset(offset) for name, offset in self.positions.items()}
        return SnapshotIndex(
            job=JOB, graph="", python="", slots=SLOTS, epoch=Epoch(self.epoch), fence=FENCE, cut=self.cut,
            segments=(), fronts=(FrontPosition(FRONT, self.last_stamp, offsets),), outputs=(),
        )  # fmt: skip

    # --- on disk --------------------------------------------------------------------------------------------

    def leave(
        self, folder: Path, sink: dict[str, Any], module: str = "words_application", job: str = JOB
    ) -> CheckedJob:
        """Write everything, and give the job. `sink`: its spec; `module`: a name of its own for the
        application; `job`: its identity."""
        (folder / "in").mkdir(parents=True, exist_ok=True)
        (folder / "in" / "lines.txt").write_text("".join(f"{line}\n" for line in self.lines))
        (folder / f"{module}.py").write_text(APPLICATION)
        manifest = folder / "job.yaml"
        manifest.write_text(json.dumps(self._document(sink, module)))
        if self.kind != "timed":
            write_journal(folder / "journal", self.entries)
        deliver(sink, self.given, job=job)
        return checked_job(read(manifest))

    @staticmethod
    def edited(first: CheckedJob, edits: Iterable[tuple[str, str]]) -> CheckedJob:
        """The job that `leave` gave, with an application in which each text is replaced by another."""
        text = APPLICATION
        for before, after in edits:
            assert before in text
            text = text.replace(before, after)
        first.application.write_text(text)
        sys.modules.pop(first.application.stem, None)
        return checked_job(first.job)

    def _document(self, sink: dict[str, Any], module: str) -> dict[str, Any]:
        spec = {
            "application": {"file": f"{module}.py", "graph": "graph"},
            "sources": {SOURCE: _SOURCES[self.kind]},
            "sinks": {SINK: sink},
            "guarantee": self.guarantee,
            "workers": {"replicas": len(WORKERS), "slots": SLOTS},
            "checkpoint": {"interval": "1s", "store": "snapshots"},
            **(
                {}
                if self.kind == "timed"
                else {"journal": {"folder": "journal", "fsync": False, "keep": True}}
            ),
        }
        return {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamJob",
            "metadata": {"name": JOB},
            "spec": spec,
        }


def finished(kind: Kind = "followed", lines: int = 40) -> PastRun:
    """All input is through, and the job has completed."""
    length = 64 if kind == "timed" else 4
    text = [f"{WORDS[number % len(WORDS)]} {number}" for number in range(lines)]
    entries = [_entry(kind, text, first, length) for first in range(0, lines, length)]
    past = PastRun(kind, length, text, entries, results_of(text, length))
    past.positions, past.last_stamp = {_PARTITIONS[kind]: lines}, entries[-1].time
    return past


def going_on(kind: Kind = "followed", lines: int = 40, *, committed: int = 6, delivered: int = 8) -> PastRun:
    """It has committed `committed` runs, and delivered `delivered`; all of its input is recorded."""
    past = finished(kind, lines)
    past.cut, past.outcome = run_time(committed), ""
    past.positions, past.last_stamp = {_PARTITIONS[kind]: committed * past.length}, run_time(committed - 1)
    del past.given[delivered:]
    return past


def _entry(kind: Kind, lines: list[str], first: int, length: int) -> Entry:
    some = lines[first : first + length]
    payloads = encode_many(some) if kind == "socket" else b""
    return Entry(run_time(first // length), Partition(_PARTITIONS[kind]), Offset(first), len(some), payloads)


def write_journal(folder: Path, entries: Iterable[Entry]) -> None:
    """The journal of one front in a folder, as attempt 1 has written it."""
    place = FrontFolder(LocalStore(folder, create=True), FRONT)
    place.seal(Attempt(1), START)
    (place.path / place.next_log(Attempt(1))).write_bytes(head(START) + b"".join(map(record, entries)))


def deliver(
    spec: dict[str, Any], calls: Iterable[Iterable[Given]], *, job: str = JOB, attempt: int = 1
) -> None:
    """Give the sink of `spec` these calls, through its own consumers: one of each worker. Bundles are
    numbered on from what it has."""
    fence = Fence(Attempt(attempt), LayoutVersion(1))
    with PortDriver() as driver:
        consumers, numbers = {}, Counter[Slot]()
        for worker, slots in WORKERS.items():
            consumers[worker] = sinks.build(spec, SinkName(SINK), worker, job, driver.post, driver.reactor)
            driver.at_exit.append(consumers[worker].close)
            consumers[worker].open(OpenSink(fence, SinkName(SINK), slots))
            numbers.update({slot: last.sequence for slot, last in driver.take(SinkOpened).last.items()})
        for number, call in enumerate(calls, 1):
            for worker, bundles in _bundles(call, numbers).items():
                consumers[worker].deliver(Deliver(fence, SinkName(SINK), number, bundles))
                driver.take(BundlesAcknowledged)


def _bundles(call: Iterable[Given], numbers: Counter[Slot]) -> dict[WorkerId, tuple[Bundle, ...]]:
    """One a slot, for the worker that has it."""
    slots: dict[Slot, list[Given]] = {}
    for item in call:
        slots.setdefault(item.slot, []).append(item)
    found: dict[WorkerId, list[Bundle]] = {}
    for slot, items in slots.items():
        numbers[slot] += 1
        owner = next(worker for worker, owned in WORKERS.items() if slot in owned)
        data = encode_items([(item.meta, item.payload) for item in items])
        found.setdefault(owner, []).append(Bundle(slot, SequenceNumber(numbers[slot]), items[-1].meta, data))
    return {worker: tuple(bundles) for worker, bundles in found.items()}


@contextmanager
def own_modules() -> Iterator[None]:
    """What is imported inside is forgotten behind it: every job has an application of its own."""
    modules, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        for name in set(sys.modules) - modules:
            if getattr(sys.modules[name], "graph", None) is not None:
                del sys.modules[name]
        sys.path[:] = path


def asked_here(request: SpanRequest) -> SpanAnswer:
    """The answer of a span whose application is loaded in this process, and forgotten: a process of its own is
    an integration test's."""
    with own_modules():
        sys.modules.pop("words_application", None)
        told = msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=SpanRequest)
        said = msgspec.msgpack.encode(answered(told))
    sys.modules.pop("words_application", None)
    return msgspec.msgpack.decode(said, type=SpanAnswer)
