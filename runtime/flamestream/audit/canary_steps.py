"""Canary steps: the part of each code, in a process of its own. It interprets the records behind a cut from the
state below, one at a time, and says what each gives and how long it takes.

    request    the application, a snapshot, how to read what came behind it
    answer     results by sink, record and place; error items; microseconds a record

Nothing is called: an answer enters if the journal has it, and this code has asked for it. A request is known by
the record that it came of and its content, for in another graph its meta is another.

A shadow asks for more: where and with what state this code has come to an end, so that it goes on there.

Keeps: what is read, kept and told is bounded; nothing is delivered. Does not: compare (canary.py), or decide from
where records are read (canary_start.py).
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import merge
from itertools import takewhile
from operator import itemgetter
from statistics import median
from typing import Any, Final

import msgspec

from flamestream.audit.code_span import SpanRequest, StateLeft, loaded, state_of, stored
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.inventory import source_keys
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.front import Positions, RunRecords
from flamestream.model.calls.call import Answer, hash_of
from flamestream.model.event_time import record_count
from flamestream.model.failure import shortened
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, first_component, meta_of, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads import encoding as payloads
from flamestream.model.quoted import quoted
from flamestream.model.state_names import operations_of
from flamestream.model.time import END, START, FrontId, Time, front_of
from flamestream.model.vertex import Vertex
from flamestream.reference import End, Run, Walk, place_of

MOST_RESULTS: Final = 100_000
"""Results that are compared; then no more records are taken."""
MOST_KEYS: Final = 10_000
SHOWN: Final = 120
"""Characters of a value."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The runs of a front behind a cut, as any process can read them."""

    source: RecordedSource
    position: FrontPosition
    """The front's place at the cut."""
    entries: tuple[Entry, ...] | None = None
    """Those of its journal; None: it is timed."""
    there: int | None = None
    """Records of a timed source that are to be read, and none behind them: it may have none yet. None: any number."""

    def runs(self, most: int) -> Iterator[Run]:
        """In the order of times, until there are `most` records."""
        most = most if self.there is None else min(most, self.there)
        if most <= 0:
            return
        if self.entries is None:
            runs: Iterator[Run] = self.source.onward(self.position)
        else:
            last = Time(self.entries[-1].time + 1) if self.entries else START
            runs = iter(sorted(self.source.below(last, self.entries), key=itemgetter(0)))
        for run in runs:
            yield run
            most -= record_count(run[1])
            if most <= 0:
                return


class Awaited(msgspec.Struct, frozen=True, array_like=True):
    """A request of a call."""

    time: Time
    position: int
    """That of the record that it came of, in its run."""
    hash: bytes


class CanaryRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All that one code's process is told."""

    span: SpanRequest
    """The code, and the state, as its `savepoint` or as its `state`. `begin`: the cut where this code began; runs are
    taken to below `end`."""
    behind: tuple[Behind, ...]
    most: int
    """Records."""
    within: float
    """Seconds."""
    awaited: tuple[Awaited, ...] = ()
    """Requests that this code has made since it began, and that have no answer yet."""
    goes_on: bool = False
    """Whether the next request goes on where this one ends: the state is answered, too."""


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """A result, or an error item."""

    time: Time
    position: int
    """That of its record in its run."""
    sink: str
    index: int
    """Its place among the results of its record in the sink."""
    digest: bytes
    """Hash of its canonical encoding."""
    shown: str
    place: str
    """Its record, for people."""

    @property
    def record(self) -> tuple[int, int]:
        return self.time, self.position

    @property
    def key(self) -> tuple[int, int, str, int]:
        return self.time, self.position, self.sink, self.index


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """All that a code has given."""

    results: list[Outcome] = []
    errors: list[Outcome] = []
    until: Time = START
    """Behind the last run that it has come to."""
    through: bool = False
    """Whether that was the last that there is."""
    records: int = 0
    micros: float = 0.0
    """A record's, the median of all runs."""
    unanswered: int = 0
    """Requests without an answer."""
    awaited: tuple[Awaited, ...] = ()
    """Those, where it is to go on; so are the following."""
    state: StateLeft = StateLeft()
    places: tuple[FrontPosition, ...] = ()
    """Each timed front's place behind its last run."""
    keys: dict[str, list[bytes]] = {}
    """The keys, hashed, whose state each operation has changed: the first MOST_KEYS."""
    category: str = ""
    """Category of the error for which there is no answer; "": there is one."""
    message: str = ""


def tried(request: CanaryRequest) -> Tried:
    """The answer to a request. Loads the application: once in a process. Raises what reading the runs does."""
    span = request.span
    graph = loaded(span)
    # by what a snapshot finds them by: a call may have been renamed
    names = {key: name for name, key in source_keys(graph).items()}
    fronts = {each.front: names[each.known_as] for each in span.fronts if each.known_as in names}
    state = state_of(graph, span.state) if span.savepoint is None else span.savepoint.state(graph)
    walk = Walk(graph.validated(), state, fronts=fronts)
    sources = {vertex.name: vertex for vertex in graph.sources}
    walk.state = changed = _Changed(walk.state)
    steps = _Steps(
        graph, span.begin, {front: sources[name] for front, name in fronts.items()}, walk,
        unanswered=set(request.awaited), asked=set(request.awaited),
        places={each.position.front: Positions(each.position) for each in request.behind if each.entries is None},
    )  # fmt: skip
    # from here on: what loads slowly is not slow for a record
    deadline = time.monotonic() + request.within
    runs = merge(*(each.runs(request.most) for each in request.behind), key=itemgetter(0))
    for run in takewhile(lambda run: run[0] < span.end, runs):
        steps.run(*run)
        if steps.records >= request.most or len(steps.results) >= MOST_RESULTS or time.monotonic() > deadline:
            break
    else:
        steps.through = True
    keys = {each.name: sorted(changed.keys_of[each.place]) for each in operations_of(graph.vertices)}
    found = msgspec.structs.replace(steps.answer(), keys=keys)
    return steps.to_go_on(found) if request.goes_on else found


class _Changed(dict[tuple[int, bytes], Any]):
    """The state of a walk, and the keys that it has changed, by vertex."""

    def __init__(self, state: Mapping[tuple[int, bytes], Any]) -> None:
        super().__init__(state)
        self.keys_of: defaultdict[int | None, set[bytes]] = defaultdict(set)

    def __setitem__(self, bucket: tuple[int, bytes], value: Any) -> None:
        super().__setitem__(bucket, value)
        keys = self.keys_of[bucket[0]]
        if len(keys) < MOST_KEYS:
            keys.add(blake2b(bucket[1], digest_size=8).digest())


@dataclass(slots=True)
class _Steps:
    """The graph as far as it has come."""

    graph: Graph
    begin: Time
    sources: Mapping[FrontId, Vertex]
    """Those that this code has."""
    walk: Walk
    results: list[Outcome] = field(default_factory=list)
    errors: list[Outcome] = field(default_factory=list)
    until: Time = START
    through: bool = False
    records: int = 0
    unanswered: set[Awaited] = field(default_factory=set)
    asked: set[Awaited] = field(default_factory=set)
    places: Mapping[FrontId, Positions] = field(default_factory=dict)
    """Places of timed fronts."""
    micros: list[float] = field(default_factory=list)
    """A record's in each run."""

    def run(self, at: Time, records: Sequence[Any]) -> None:
        """Take a run to where it leads."""
        source = self.sources.get(front_of(at))
        entering = () if source is None else self.walk.entering(at, records)
        took = 0.0
        for position, record in enumerate(entering):
            if isinstance(record, Answer) and not self._is_awaited(record):
                continue
            assert source is not None, "else nothing enters"
            place = place_of(records, position)
            began = time.perf_counter()
            ends = self.walk.enter(source, meta_of(at, position), record, place)
            took += time.perf_counter() - began
            self._note(ends, at, position, _in_words(source.name, place))
        if count := record_count(records):
            self.micros.append(took * 1e6 / count)
            self.records += count
        front = self.places.get(front_of(at))
        if front is not None and isinstance(records, RunRecords):
            front.add(records.run)
            if not record_count(records):
                front.end(at)
        self.until = Time(at + 1)

    def answer(self) -> Tried:
        return Tried(
            results=self.results, errors=self.errors, until=self.until, through=self.through, records=self.records,
            micros=median(self.micros) if self.micros else 0.0, unanswered=len(self.unanswered),
        )  # fmt: skip

    def to_go_on(self, found: Tried) -> Tried:
        """The answer, with what the next request goes on with."""
        return msgspec.structs.replace(
            found, awaited=tuple(self.unanswered), state=stored(self.graph, self.walk.state),
            places=tuple(place.at(END) for place in self.places.values()),
        )  # fmt: skip

    def _is_awaited(self, answer: Answer) -> bool:
        """Whether this code has asked for it; of what was asked below the cut nobody knows better."""
        meta = Meta(answer.request)
        request = Awaited(time_of_meta(meta), first_component(meta), answer.hash)
        self.unanswered.discard(request)
        return request.time < self.begin or request in self.asked

    def _note(self, ends: Sequence[End], at: Time, position: int, place: str) -> None:
        counts = Counter[str]()
        for end in ends:
            sink = self.walk.errors if end.vertex is None else self.graph.vertices[end.vertex].name
            data = payloads.encode(end.payload)
            row = Outcome(
                at,
                position,
                sink,
                counts[sink],
                blake2b(data, digest_size=16).digest(),
                shown(end.payload),
                place,
            )
            counts[sink] += 1
            (self.errors if end.vertex is None else self.results).append(row)
            if end.vertex is not None and self.graph.vertices[end.vertex].call is not None:
                request = Awaited(at, position, hash_of(data))
                self.asked.add(request)
                self.unanswered.add(request)


def shown(payload: Any) -> str:
    """A result, or an error, for people."""
    if isinstance(payload, ErrorValue):
        return f"{payload.error} in {payload.function} ({quoted(payload.message[:SHOWN])})"
    return shortened(payload, SHOWN)


def _in_words(source: str, place: tuple[str, int] | None) -> str:
    if place is None or place[1] < 0:
        return f"a record of {source}"
    return f"record {place[1]:,} of {source}{f' {place[0]}' if place[0] else ''}"
