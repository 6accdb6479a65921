"""Delivering: the last job of a batch: rows for sinks go to their consumers, a task for some slots.

Tasks fence like workers. Spark may start a task again while the last one still runs, so a task's fence has
the number of its try: the new one is refused nothing, the old one everything. Sinks that fence all slots at
once refuse the other tasks with it; those are tried again too and go on behind what they have delivered.
Under `onError: fail` the least error comes before all results, and those from its run on stay.

Keeps: exactly once per slot through any number of tries. Does not: choose the attempt (whoever starts the job
does).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flamestream.model.errors import Bug
from flamestream.model.ids import Attempt, Fence, LayoutVersion
from flamestream.spark.calls.pairing import Pairing, place_of
from flamestream.spark.frames.consumer import TaskConsumer
from flamestream.spark.frames.kept_state import StatePlace, StateWriter, encoded_ref
from flamestream.spark.frames.pipeline import placed
from flamestream.spark.frames.rows import ANSWERS, HALT, vertex_of_state
from flamestream.spark.frames.slot_output import BEYOND, SinkOutput
from flamestream.spark.frames.tasks import slots_of_partition

REPORT_SPARK: Final = (
    "to int, slot int, delivered long, repeated long, sequence long, last binary, payload binary"
)
REPORT: Final = pa.schema(
    [
        pa.field("to", pa.int32()),
        pa.field("slot", pa.int32()),
        pa.field("delivered", pa.int64()),
        pa.field("repeated", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("last", pa.binary()),
        pa.field("payload", pa.binary()),
    ]
)
TASK: Final = -1
"""`slot` of the line about a whole task."""
SEGMENT: Final = -2
REPLACED: Final = -3
"""`to` of lines about segments: a new one, and the name of one that is merged into it."""
UNANSWERED: Final = -5
"""`to` of the line about requests of calls without an answer: how many there are."""
REQUESTS: Final = -6
"""`to` of lines about segments of these."""


@dataclass(frozen=True, slots=True)
class SinkPlace:
    """A sink of the manifest."""

    name: str
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Everything a delivering task has to know. Called with rows sorted by meta; gives lines of a report."""

    job: str
    sinks: Mapping[int, SinkPlace]
    """Sinks by vertex number; error items have the number behind the last vertex."""
    slots: int
    partitions: int
    attempt: int
    compare: bool
    """False: what a consumer has already is delivered again (`at-least-once`, `none`)."""
    floor: bytes = b""
    until: bytes = BEYOND
    """Where this batch ends, as a meta."""
    layout: int = 1
    """The layout's version under which nobody has delivered yet in this attempt."""
    calls: Mapping[int, str] = field(default_factory=dict)
    """Calls, by the vertex of their requests' sink: those go to no sink, and are looked at beside their
    answers."""
    earlier: StatePlace | None = None
    """Where new states go; None if none are kept."""
    epoch: int = 0

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        with ExitStack() as closing:
            delivering = _Delivering(self, _task(), closing)
            for batch in batches:
                delivering.take(batch)
            yield delivering.report()


def delivered(rows: Any, deliver: Deliver) -> list[Any]:
    """Run it: the lines of the report."""
    # Spark compares a meta's first eight bytes as a number.
    place = place_of(deliver.slots, deliver.calls)
    ordered = placed(rows, deliver.slots, deliver.partitions, place).sortWithinPartitions("meta")
    lines: list[Any] = ordered.mapInArrow(deliver, REPORT_SPARK).collect()
    return lines


@dataclass(frozen=True, slots=True)
class _Task:
    partition: int
    tries: int


def _task() -> _Task:
    from pyspark import TaskContext

    from flamestream.spark.streaming.task import watch_daemon

    context = TaskContext.get()
    if context is None:
        raise Bug("a delivering task runs outside Spark")
    watch_daemon()
    return _Task(context.partitionId(), context.attemptNumber())


class _Delivering:
    def __init__(self, plan: Deliver, task: _Task, closing: ExitStack) -> None:
        self._plan = plan
        self._fence = Fence(Attempt(plan.attempt), LayoutVersion(plan.layout + task.tries))
        self._writer = f"batch-{task.partition}"
        self._slots = slots_of_partition(task.partition, plan.slots, plan.partitions)
        self._closing = closing
        self._outputs: dict[int, SinkOutput] = {}
        self._halt: tuple[bytes, bytes] | None = None
        self._pairing = Pairing(plan.calls, plan.epoch, keeps=plan.earlier is not None)
        self._states = None
        if plan.earlier is not None:
            self._states = StateWriter(plan.earlier, plan.job, plan.epoch, plan.attempt, task.partition)

    def take(self, batch: Any) -> None:
        if self._states is not None:
            batch = self._take_states(batch)
        self._take_halts(batch)
        if self._plan.calls:
            batch = self._pairing.take(batch, None if self._halt is None else self._halt[0][:8])
        columns = [batch.column(name) for name in ("to", "slot", "meta", "payload")]
        puts = {to: self._put(to) for to in pc.unique(columns[0]).to_pylist()}
        for to, slot, meta, payload in zip(*(column.to_pylist() for column in columns), strict=True):
            if self._halt is None or meta[:8] < self._halt[0][:8]:
                puts[to](slot, meta, payload)

    def _take_halts(self, batch: Any) -> None:
        found = batch.filter(pc.equal(batch.column("to"), HALT))
        halts = zip(found.column("key").to_pylist(), found.column("payload").to_pylist(), strict=True)
        self._halt = min([*halts, *([self._halt] if self._halt else [])], default=None)

    def _take_states(self, batch: Any) -> Any:
        """New states go to the writer; the rest of the batch is left."""
        assert self._states is not None
        is_state = pc.and_(pc.less(batch.column("to"), 0), pc.greater(batch.column("to"), ANSWERS))
        found = batch.filter(is_state)
        for to, slot, key, state in zip(
            *(found.column(name).to_pylist() for name in ("to", "slot", "key", "payload")), strict=True
        ):
            self._states.put(vertex_of_state(to), slot, key, state)
        return batch.filter(pc.invert(is_state))

    def _put(self, to: int) -> Callable[[int, bytes, bytes], None]:
        """An error item that halts the job instead has no sink."""
        return self._output(to).put if to in self._plan.sinks else _NOWHERE

    def _output(self, to: int) -> SinkOutput:
        if to not in self._outputs:
            place = self._plan.sinks[to]
            made = TaskConsumer(place.spec, place.name, self._writer, self._plan.job, self._fence)
            consumer = self._closing.enter_context(made)
            self._outputs[to] = SinkOutput(
                place.name,
                consumer,
                self._slots,
                compare=self._plan.compare,
                floor=self._plan.floor,
                until=self._plan.until,
            )
        return self._outputs[to]

    def report(self) -> Any:
        lines: list[tuple[Any, ...]] = []
        for to in self._plan.sinks:
            # One without a row is opened too: it is fenced, is there to be read, and lacks nothing it had.
            output = self._output(to)
            output.end()
            lines.append((to, TASK, output.delivered, output.repeated, 0, b"", b""))
            lines += [
                (to, slot, 0, 0, sequence, last, b"") for slot, (sequence, last) in output.outputs.items()
            ]
        if self._halt is not None:
            lines.append((HALT, TASK, 0, 0, 0, *self._halt))
        else:  # behind a halt nothing is committed
            lines += self._left()
        columns = list(zip(*lines, strict=True)) if lines else [()] * len(REPORT)
        return pa.record_batch(
            [pa.array(column, field.type) for column, field in zip(columns, REPORT, strict=True)],
            schema=REPORT,
        )

    def _left(self) -> Iterator[tuple[Any, ...]]:
        """Lines about what goes on: requests without an answer, and states."""
        self._pairing.end()
        if count := self._pairing.unanswered:
            yield (UNANSWERED, TASK, count, 0, 0, b"", b"")
        if self._states is not None:
            segments, replaced = self._states.end(self._slots)
            requests = self._states.of_requests(self._pairing.open)
            kinds = ((SEGMENT, segments), (REQUESTS, requests))
            yield from ((to, TASK, 0, 0, 0, b"", encoded_ref(ref)) for to, refs in kinds for ref in refs)
            yield from ((REPLACED, TASK, 0, 0, 0, b"", name.encode()) for name in replaced)


def _nowhere(slot: int, meta: bytes, payload: bytes) -> None:
    """Rows that no sink gets."""


_NOWHERE: Final[Callable[[int, bytes, bytes], None]] = _nowhere
