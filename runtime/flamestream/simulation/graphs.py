"""Jobs for the simulator: drawn graphs, and some with a point.

A drawn graph is a chain of stages over payloads `(key, value)`, both str. Every stage is sensitive to order
or to loss: what an item becomes depends on everything before it, so an engine that reorders, loses or doubles
anything ends with other bytes. Values are folded into short digests, so that long chains stay small.

The named ones are the delivery paper's abc/bac example, an inverted index over `fs.Vector`, keys that
Python's `==` confuses, two whose functions raise: on certain records, or only in an order that is not the
true one; and one with a function that depends on something outside.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from zlib import crc32

from flamestream.model.collections import Vector
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName
from flamestream.model.slot import INT32_MIN
from flamestream.model.stream import Stream
from flamestream.simulation.drift import Drift

Payload = tuple[str, str]
Stage = Callable[[Random, Stream[Any]], Stream[Any]]
LETTERS = "abcdefghijklmnop"
DEAD_LETTERS = SinkName("dead-letters")


@dataclass(frozen=True, slots=True)
class SimJob:
    """A graph and what its fronts read."""

    graph: Graph
    dead_letter: SinkName | None
    record: Callable[[Random, int], object]
    """(rng, number) -> the record with this number."""
    sources: int
    one_partition: bool = False
    """Its meaning needs the records of a front in one order."""
    journalled: bool = False
    """No front of it is timed."""
    drift: Drift | None = None
    """The value outside that its last function depends on."""
    kind: str = ""
    """`flamestream simulate --kind` draws it; "": without."""
    versions: Callable[[int], Graph] | None = None
    """The graph after so many edits, where the code is changed; 0 is `graph`."""

    mistaken: bool = False
    """Every second version raises, or ends its process."""
    patience: int | None = None
    """`WorkerSettings.patience`."""
    judged: int = 64
    """`WorkerSettings.judged`."""

    def of_version(self, version: int) -> "SimJob":
        """The job after so many edits."""
        return self if self.versions is None else replace(self, graph=self.versions(version))


def digest(text: str) -> str:
    """Eight letters that depend on all of `text`."""
    return f"{crc32(text.encode()):08x}"


def spread(payload: Any) -> int:
    """Anywhere."""
    # Never `hash`: of a str it differs from process to process.
    return crc32(repr(payload).encode()) + INT32_MIN


def key_of(payload: Payload) -> str:
    return payload[0]


def same(payload: Any) -> Any:
    return payload


# --- stages -------------------------------------------------------------------------------------------------


def scatter(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """To other workers and on: what follows comes out of order."""
    return stream.balance(spread).map(same)


def rekey(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """Another key from the value."""
    keys = rng.randint(1, 6)
    return stream.map(lambda p: (LETTERS[crc32(p[1].encode()) % keys], p[1]))


def fan_out(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """None, one or two for each."""
    return stream.flat_map(lambda p: [(p[0], f"{p[1]}{i}") for i in range(crc32(p[1].encode()) % 3)])


def diamond(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """Two filters that both let some items pass, merged: without the edge in the trace they tie."""
    left = stream.filter(lambda p: crc32(p[1].encode()) % 3 != 0).map(lambda p: (p[0], p[1] + "l"))
    right = stream.filter(lambda p: crc32(p[1].encode()) % 3 != 1)
    return left.merge(right)


def concatenation(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """All values of a key so far, in order."""
    return stream.reduce(
        key=key_of,
        initial=str,
        combine=lambda a, p: f"{a[-40:]}{digest(a)[:2]}.{p[1][-6:]}",
        emit=lambda a, p: (p[0], p[1][-8:] + digest(a)),
        fused=rng.random() < 0.7,
    )


def windows(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """The last few of a key."""
    window = rng.randint(1, 5)
    return stream.group(window, key=key_of).map(
        lambda w: (w[-1][0], digest("|".join(v for _, v in w)) + str(len(w)))
    )


def vector(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """A growing persistent collection."""
    return stream.reduce(
        key=key_of,
        initial=Vector,
        combine=lambda a, p: a.append(p[1]),
        emit=lambda a, p: (p[0], f"{len(a)}{digest(''.join(a))}"),
    )


def rounds(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """A loop: each value goes round up to three times, through a grouping."""
    most = rng.randint(1, 3)
    head = stream.graph.loop("rounds", max_iterations=most + 1)
    turned = stream.map(lambda p: (p[0], p[1], 0)).merge(head).group(2, key=lambda p: p[0]).map(_turn)
    head.close(turned.filter(lambda p: p[2] < most))
    return turned.filter(lambda p: p[2] >= most).map(lambda p: (p[0], p[1]))


def _turn(window: tuple[Any, ...]) -> tuple[str, str, int]:
    key, value, count = window[-1]
    return key, digest(value + window[0][1]), count + 1


def sometimes_raising(rng: Random, stream: Stream[Any]) -> Stream[Any]:
    """A function that raises on certain records."""
    return stream.map(_raise_on(rng.randrange(7)))


def _raise_on(rest: int) -> Callable[[Payload], Payload]:
    def raising(payload: Payload) -> Payload:
        if crc32(payload[1].encode()) % 7 == rest:
            raise ValueError(f"cannot take {payload[1]!r}")
        return payload

    return raising


STAGES: tuple[tuple[Stage, int], ...] = (
    (scatter, 4), (rekey, 2), (fan_out, 1), (diamond, 2), (concatenation, 4), (windows, 3), (vector, 2),
    (rounds, 1),
)  # fmt: skip
_ONCE = (fan_out, rounds, diamond)


# --- jobs ---------------------------------------------------------------------------------------------------


def drawn_job(rng: Random) -> SimJob:
    """Any job."""
    special = rng.random()
    if special < 0.35:
        return rng.choice(_WITH_A_POINT)(rng)
    return chain(rng)


def chain(rng: Random) -> SimJob:
    """Up to four random stages over one to three merged sources."""
    stages: list[Stage] = []
    while len(stages) < rng.randint(1, 4):
        stage = rng.choices([s for s, _ in STAGES], [w for _, w in STAGES])[0]
        if stage not in _ONCE or stage not in stages:
            stages.append(stage)
    # Something has to remember: without state no order would be a wrong one.
    if not {concatenation, windows, vector, rounds} & set(stages):
        stages.append(concatenation)
    graph, stream, sources = source_streams(rng, "chain")
    for stage in stages:
        stream = stage(rng, stream)
    stream.sink("out", key=key_of)
    return SimJob(graph, None, string_record(rng), sources)


def abc_bac(rng: Random) -> SimJob:
    """Characters of several fronts are appended to one string: only one order is right, whichever it is."""
    graph, stream, sources = source_streams(rng, "abc-bac")
    stream.balance(spread).map(same).reduce(
        key=lambda p: "", initial=str, combine=lambda a, p: (a + p[1][-1])[-50:]
    ).sink("out", key=lambda a: "")
    return SimJob(graph, None, string_record(rng), sources)


def inverted_index(rng: Random) -> SimJob:
    """Documents to words to postings."""
    graph = Graph("inverted-index")
    postings = graph.source("s0").flat_map(_words)
    index = postings.reduce(
        key=lambda p: p[0],
        initial=Vector,
        combine=lambda a, p: a.append(p[1:]),
        emit=lambda a, p: (p[0], len(a), *p[1:]),
    )
    index.sink("out", key=lambda c: c[0])
    return SimJob(graph, None, _document, 1)


def _words(document: Any) -> Iterator[tuple[str, int, int]]:
    number, text = document
    return ((word, number, place) for place, word in enumerate(text.split()))


def _document(rng: Random, number: int) -> object:
    return number, " ".join(LETTERS[min(int(rng.expovariate(0.4)), 15)] for _ in range(rng.randint(0, 5)))


def confusing_keys(rng: Random) -> SimJob:
    """Keys that are equal to Python and different to us, and NaN, which is the other way round."""
    graph = Graph("confusing-keys")
    keys = [1, True, 1.0, "1", float("nan"), 0, False, 0.0, b"1"]
    stream = graph.source("s0").map(lambda p: (keys[crc32(p[1].encode()) % len(keys)], p[1]))
    counted = stream.reduce(
        key=lambda p: p[0], initial=str, combine=lambda a, p: digest(a + p[1]), emit=lambda a, p: (p[0], a)
    )
    counted.sink("out", key=lambda p: p[0])
    return SimJob(graph, None, string_record(rng), 1)


def raises_out_of_order(rng: Random) -> SimJob:
    """Combining raises if a number is missing before the next, as speculation may well see it; the true order
    misses none."""
    graph = Graph("raises-out-of-order")
    stream = graph.source("s0").balance(spread).map(same)
    stream.reduce(key=lambda p: "", initial=int, combine=_next_number, emit=lambda a, p: (p[0], str(a))).sink(
        "out", key=key_of
    )
    return SimJob(
        graph, None, lambda r, number: (LETTERS[number % 5], str(number + 1)), 1, one_partition=True
    )


def _next_number(accumulator: int, payload: Payload) -> int:
    if int(payload[1]) != accumulator + 1:
        raise ValueError(f"{payload[1]} after {accumulator}")
    return int(payload[1])


def raises_on_some(rng: Random) -> SimJob:
    """A function that raises on certain records: dead letters, or the end of the job at a certain run."""
    graph, stream, sources = source_streams(rng, "raises-on-some")
    stages = [sometimes_raising, concatenation]
    if rng.random() < 0.5:
        stages.reverse()
    for stage in stages:
        stream = stage(rng, scatter(rng, stream))
    stream.sink("out", key=key_of)
    return SimJob(graph, rng.choice([DEAD_LETTERS, None]), string_record(rng), sources)


def drifting(rng: Random) -> SimJob:
    """Behind all state stands a function that is not deterministic: what it gives depends on when it is
    called."""
    drift = Drift()
    graph, stream, sources = source_streams(rng, "drifting")
    for stage in rng.choice([[scatter, concatenation], [windows], [concatenation, rekey]]):
        stream = stage(rng, stream)
    stream.map(drift.marked).sink("out", key=key_of)
    return SimJob(graph, None, string_record(rng), sources, drift=drift)


def two_sinks(rng: Random) -> SimJob:
    """A stream that goes two ways to two consumers."""
    graph, stream, sources = source_streams(rng, "two-sinks")
    left, right = stream.broadcast(2)
    concatenation(rng, left).sink("out", key=key_of)
    windows(rng, scatter(rng, right)).sink("other", key=lambda p: p[1])
    return SimJob(graph, None, string_record(rng), sources)


def twice_across(rng: Random) -> SimJob:
    """A reduce behind a reduce with another key: every item crosses workers twice, and so do its
    tombstones."""
    graph, stream, sources = source_streams(rng, "twice-across")
    for stage in (scatter, concatenation, rekey, concatenation):
        stream = stage(rng, stream)
    stream.sink("out", key=key_of)
    return SimJob(graph, None, string_record(rng), sources)


_WITH_A_POINT: tuple[Callable[[Random], SimJob], ...] = (
    abc_bac, inverted_index, confusing_keys, raises_out_of_order, raises_on_some, two_sinks, twice_across,
    drifting,
)  # fmt: skip


def source_streams(rng: Random, name: str) -> tuple[Graph, Stream[Any], int]:
    """A graph of one to three sources, their merged stream, and how many they are."""
    graph, count = Graph(name), rng.choice([1, 1, 2, 2, 3])
    streams = [graph.source(f"s{i}") for i in range(count)]
    return graph, streams[0].merge(*streams[1:]) if count > 1 else streams[0], count


def string_record(rng: Random) -> Callable[[Random, int], object]:
    """Keys evenly spread, or skewed so that one has nearly all."""
    skew = rng.choice([0.15, 0.5, 2.0])
    return lambda r, number: (LETTERS[min(int(r.expovariate(skew)), 15)], f"{number}")
