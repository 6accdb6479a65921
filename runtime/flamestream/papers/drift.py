"""Drifting state (EDBT, Fig. 5 and 6): state is an item that goes round a cycle.

The graph of Fig. 5 on the core's dataflow, fed with the two words of Fig. 6, and then with a late one. What
comes to the grouping is looked at, and what it gives.
"""

from typing import Any

from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.dataflow import Dataflow
from flamestream.core.dataflow.grouping import Change, Grouping
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model.graph import Graph
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.meta import Meta, meta_of, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import END, START, Time
from flamestream.model.vertex import Vertex
from flamestream.papers.report import Report, Table

ME = WorkerId("w")
Item = tuple[str, str, int]
"""("m" of a mapped item or "a" of an accumulator, word, number)."""
COLUMNS = ("comes", "bucket", "goes out", "combined to")
Row = tuple[str, str, str, str]


def run() -> Report:
    """The paper's two words, then one that comes late."""
    count = WordCount()
    two = count.enter(Time(10), "dog") + count.enter(Time(20), "dog")
    late = count.enter(Time(15), "dog")
    released = count.release()
    return Report(
        "Drifting state, step by step (EDBT, Fig. 5 and 6)",
        "a grouping of two, a map that combines, and a cycle. An accumulator comes back right behind the "
        "item that it is of; the tuple (accumulator, item) is combined, the tuple (item, accumulator) is "
        "dropped. Fig. 6: dog twice, in four steps, to a[dog,2].",
        (
            Table("The word dog at 10 and at 20, in the core's dataflow (~ is a tombstone)", COLUMNS, two),
            Table("A third one at 15, late", COLUMNS, late),
            Table(
                "What leaves the barrier when minimal time has passed all",
                ("time", "result"),
                tuple((str(time), shown(item)) for time, item in released),
            ),
        ),
        "The state drifts with the stream, so a late item mends it as it mends anything else. Taken back at "
        f"the barrier, before it could leave: {count.taken_back}.",
        [(time, item[2]) for time, item in released] == [(10, 1), (15, 2), (20, 3)],
    )


class WordCount:
    """The graph, on one worker's dataflow."""

    def __init__(self) -> None:
        graph = Graph("word-count")
        back = graph.loop("accumulators", max_iterations=1)
        tuples = graph.source("words").map(_mapped).merge(back).group(2, key=_word)
        accumulators = tuples.flat_map(_combined)
        back.close(accumulators)
        accumulators.sink("counts", key=_word)
        self._source = graph.validated().sources[0].id
        self._barrier = Barrier()
        self._flow = _Watched(graph)
        self._flow.reset([ME], {graph.sinks[0].id: self._barrier})

    def enter(self, time: Time, word: str) -> tuple[Row, ...]:
        """A word enters; a row for all that comes to the grouping until nothing is under way."""
        self._flow.run([(meta_of(time, 0), time, self._source, word, False)])
        rows = tuple(self._flow.rows)
        self._flow.rows.clear()
        return rows

    def release(self) -> list[tuple[Time, Item]]:
        """Items that leave, each with its time."""
        return [(time_of_meta(meta), item) for meta, _, item in self._barrier.release(END)]

    @property
    def taken_back(self) -> int:
        """Results that a tombstone met at the barrier."""
        return self._barrier.dropped


class _Watched(Dataflow):
    """The core's dataflow, with a grouping that is looked at."""

    def __init__(self, graph: Graph) -> None:
        self.rows: list[Row] = []
        super().__init__(graph, WorkerSettings("papers", 1, ()), ME, LiveCuts(START), _NothingLeaves())

    def _state(self, vertex: Vertex) -> Grouping:
        return _WatchedGrouping(vertex, self._cuts, self.rows)


class _WatchedGrouping(Grouping):
    """Writes down what comes and what goes out."""

    def __init__(self, vertex: Vertex, cuts: LiveCuts, rows: list[Row]) -> None:
        super().__init__(vertex.id, cuts, vertex.window)
        self._rows = rows

    def insert(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        changes = super().insert(key, slot, meta, payload)
        self._note(shown(payload), key, changes)
        return changes

    def remove(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        changes = super().remove(key, slot, meta, payload)
        self._note(f"~{shown(payload)}", key, changes)
        return changes

    def _note(self, comes: str, key: bytes, changes: list[Change]) -> None:
        bucket = " ".join(map(shown, self.buckets[key].payloads))
        out, made = [], []
        for _, window, gone in changes:
            mark = "~" if gone else ""
            out.append(f"{mark}({' '.join(map(shown, window))})")
            made += [f"{mark}{shown(item)}" for item in _combined(window)]
        self._rows.append((comes, bucket, " ".join(out), " ".join(made) or "nothing"))


def shown(item: Item) -> str:
    """As the paper writes it: a[dog,1]."""
    kind, word, number = item
    return f"{kind}[{word},{number}]"


def _mapped(word: str) -> Item:
    return "m", word, 1


def _word(item: Item) -> str:
    return item[1]


def _combined(window: tuple[Item, ...]) -> list[Item]:
    """The map of Fig. 5 behind the grouping."""
    *before, (kind, word, number) = window
    if kind == "a" or (before and before[0][0] == "m"):
        return []
    return [("a", word, number + (before[0][2] if before else 0))]


class _NothingLeaves:
    """The outside of a dataflow that owns every slot and meets no error (`dataflow.Output`)."""

    def send(
        self, owner: WorkerId, cause: Time, vertex: int, meta: Meta, payload: Any, tombstone: bool
    ) -> None:
        raise AssertionError(f"one worker owns every slot, and sends {payload!r} to {owner}")

    def send_gathered(self, owner: WorkerId, cause: Time, items: Any) -> None:
        raise AssertionError(f"one worker owns every slot, and sends {items!r} to {owner}")

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        return error

    def error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        raise AssertionError(f"words are counted without an error, and here is {error}")

    def late(self, meta: Meta, number: int, tombstone: bool) -> None:
        raise AssertionError("nothing here has event time")
