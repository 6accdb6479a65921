"""Descent: the record of a source that a delivered item comes from.

The total order gives it for nothing. An item's meta begins with the time of the run that it descends from, and goes on
with the position of a record in that run; a journal, or the source read again, says which record that was.

Nobody writes down when an item was released; this bounds it. All items of a bundle leave together, and none before its
run was stamped: so not before the newest run of its bundle. What is below the committed cut was acknowledged before
the commit. Between these lies what the sink itself says of when it wrote the bundle, where it does.

Keeps: an item whose run cannot be read again says so, and nothing is guessed. Does not: compute anything again
(job_audit.py), or know which other items were in the state that it was made with.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from flamestream.audit.committed import LastCommit
from flamestream.connectors import sinks
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.worker.front import RunRecords
from flamestream.job.recorded import recorded_sources
from flamestream.job.settings import known_to
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import first_component, time_of_meta
from flamestream.model.payloads.plain import plain
from flamestream.model.time import FrontId, Time, front_of, timestamp_of
from flamestream.model.vertex import Kind
from flamestream.store.zookeeper_access import ZooKeeperAccess

MOST: Final = 100


@dataclass(frozen=True, slots=True)
class Descent:
    """A delivered item, and where it came from."""

    sink: str
    slot: int
    bundle: int
    """The number of the bundle of its slot that it was delivered in."""
    meta: str
    time: int
    """Microseconds: of the run that it descends from."""
    payload: Any
    owner: str
    """The worker that has its slot now; "": nobody has said."""
    saved: bool
    """Whether its run is below the committed cut."""
    vertices: tuple[int, ...]
    """Those on the ways from its source to its sink."""
    source: str
    position: int
    """The place of the record in its run."""
    released_after: int
    """Microseconds, as all moments here: the newest run that its bundle has an item of was stamped then."""
    released_before: int
    """It was with its consumer then: its epoch was committed, or it was read from the sink."""
    written: int = 0
    """When its sink has written its bundle, by the writer's or the server's clock; 0: the sink does not say."""
    partition: str = ""
    offset: int = -1
    """The place of the record in its source; -1: not known."""
    records: int = 0
    """Records that entered in the same run; 0: the run cannot be read again."""
    record: Any = None


def descents(
    checked: CheckedJob,
    last: LastCommit,
    zookeeper: ZooKeeperAccess,
    text: str,
    sink: str = "",
    limit: int = 10,
    *,
    job: str = "",
    clock: Callable[[], int] = lambda: time.time_ns() // 1000,
) -> list[Descent]:
    """The newest items that have `text` in their JSON, of one sink or of all, oldest first. `job`: its name in a
    cluster; `clock` gives microseconds since 1970. Raises UserError for a sink that is not there, or cannot be read
    back."""
    if sink and sink not in checked.sinks:
        raise UserError(f"there is no sink {sink!r}; job {checked.job.name!r} has {', '.join(checked.sinks)}")
    checked, identity = known_to(last.record, checked), job or checked.job.identity
    sources = {each.front.front: each for each in recorded_sources(checked, job, zookeeper)}
    found: list[Descent] = []
    for name in [sink] if sink else checked.sinks:
        place = checked.job.sink(name), f"spec.sinks.{name}", identity
        newest = Newest(text, min(limit, MOST))
        for item in sinks.read(*place):
            newest.take(item)
        now, wanted = clock(), {item[1:3] for item in newest.items}
        moments = (
            {each[:2]: each[2] for each in sinks.moments(*place) if each[:2] in wanted} if wanted else {}
        )
        for item in newest.items:
            one, bundle = _descent(checked, last, sources, name, item, now), item[1:3]
            after = timestamp_of(newest.bundles[bundle])
            found.append(replace(one, released_after=after, written=moments.get(bundle, 0)))
    found.sort(key=lambda each: bytes.fromhex(each.meta))
    return list(_with_records(sources, found[-limit:]))


class Newest:
    """The newest items that have a text, and the newest run of the bundle of each. Items come in the total order, so
    what comes last of a bundle is its newest."""

    def __init__(self, text: str, most: int) -> None:
        self._text = text
        self.items: deque[sinks.Item] = deque(maxlen=most)
        self.bundles: dict[tuple[Slot, SequenceNumber], Time] = {}

    def take(self, item: sinks.Item) -> None:
        """Look at the next item."""
        time, bundle = time_of_meta(item[0]), item[1:3]
        if self._text in _written(item[3]):
            self.items.append(item)
            self.bundles[bundle] = time
            if len(self.bundles) > 4 * MOST:
                self.bundles = {each[1:3]: self.bundles[each[1:3]] for each in self.items}
        elif bundle in self.bundles:
            self.bundles[bundle] = time


def _written(payload: Any) -> str:
    """The payload as `cat` prints it."""
    return msgspec.json.encode(payload, enc_hook=plain).decode()


def _descent(
    checked: CheckedJob, last: LastCommit, sources: dict[FrontId, RecordedSource], sink: str, item: sinks.Item,
    now: int,
) -> Descent:  # fmt: skip
    meta, slot, bundle, payload = item
    time = time_of_meta(meta)
    saved = time < last.cut
    front = sources[front_of(time)].front
    owners = () if last.record is None else last.record.layout.owners
    return Descent(
        sink=sink,
        slot=slot,
        bundle=bundle,
        meta=meta.hex(),
        time=timestamp_of(time),
        payload=payload,
        owner=owners[slot] if slot < len(owners) else "",
        saved=saved,
        vertices=_between(checked.graph, front, sink),
        source=front.source,
        position=first_component(meta),
        released_after=timestamp_of(time),
        released_before=min(now, last.written) if saved and last.written else now,
    )


def _with_records(sources: dict[FrontId, RecordedSource], found: Sequence[Descent]) -> Iterator[Descent]:
    """The same, with the records of their runs: each source is read once."""
    runs: dict[Time, Sequence[Any]] = {}
    for front, source in sources.items():
        wanted = {time for each in found if front_of(time := _time(each)) == front}
        runs |= {time: run for time, run in _runs(source, wanted) if time in wanted}
    for each in found:
        run = runs.get(_time(each))
        yield each if run is None or each.position >= len(run) else _with_record(each, run)


def _time(descent: Descent) -> Time:
    return Time(int(descent.meta[:16], 16))


def _runs(source: RecordedSource, wanted: set[Time]) -> Iterator[tuple[Time, Sequence[Any]]]:
    if not wanted:
        return iter(())
    end = Time(max(wanted) + 1)
    if source.front.timed:
        return source.below(end)
    return source.below(end, [entry for entry in source.entries() if entry.time in wanted])


def _with_record(descent: Descent, run: Sequence[Any]) -> Descent:
    partition, offset = run.record(descent.position) if isinstance(run, RunRecords) else ("", -1)
    return replace(
        descent, partition=partition, offset=offset, records=len(run), record=run[descent.position]
    )


def _between(graph: Graph, front: FrontSettings, sink: str) -> tuple[int, ...]:
    """Vertices on the ways from a source to a sink."""
    outputs = {vertex.id: vertex.outputs for vertex in graph.vertices}
    begins = {
        vertex.id for vertex in graph.vertices if (vertex.kind, vertex.name) == (Kind.SOURCE, front.source)
    }
    ends = {vertex.id for vertex in graph.vertices if (vertex.kind, vertex.name) == (Kind.SINK, sink)}
    inputs: dict[int, list[int]] = {vertex: [] for vertex in outputs}
    for vertex, following in outputs.items():
        for output in following:
            inputs[output].append(vertex)
    return tuple(sorted(_reached(begins, outputs) & _reached(ends, inputs)))


def _reached(begins: set[int], following: Any) -> set[int]:
    found, left = set(begins), list(begins)
    while left:
        for vertex in following[left.pop()]:
            if vertex not in found:
                found.add(vertex)
                left.append(vertex)
    return found
