"""Optimistic grouping (EDBT, Fig. 7): a late item, the tombstone for what it broke, and the barrier."""

from typing import Final

from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.grouping import Grouping
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta, meta_of
from flamestream.model.time import START, Time
from flamestream.papers.report import Report, Table

KEY, SLOT = b"", Slot(0)
ARRIVALS: Final = (1, 3, 2)
"""Items, by their times, as they come."""


def run() -> Report:
    """The paper's three items."""
    return report(ARRIVALS)


def report(arrivals: tuple[int, ...]) -> Report:
    """Items come in this order to a grouping of two; behind it stands a barrier."""
    flow = Flow(window=2)
    rows = [flow.come(time) for time in arrivals]
    rows += [flow.pass_to(minimal) for minimal in range(2, max(arrivals) + 2)]
    in_order = [_window(sorted(arrivals), place) for place in range(len(arrivals))]
    return Report(
        "Optimistic grouping, step by step (EDBT, Fig. 7)",
        "a grouping with a window of two has 1 and 3, and 2 comes late: (1 2) and (2 3) go out, and a "
        "tombstone for (1 3), which had gone out before.",
        (
            Table(
                "A grouping of two and a barrier of the core (~ is a tombstone)",
                ("comes", "bucket", "goes out", "held at the barrier", "leaves"),
                tuple(rows),
            ),
        ),
        "Nothing waits for the right order but the barrier. What leaves is what items in order would have "
        "given.",
        flow.left == in_order,
    )


def _window(ordered: list[int], place: int) -> tuple[int, ...]:
    return tuple(ordered[max(0, place - 1) : place + 1])


class Flow:
    """A grouping of the core, and a barrier behind it."""

    def __init__(self, window: int, cut: Time = START) -> None:
        self.cuts = LiveCuts(cut)
        self.grouping = Grouping(0, self.cuts, window)
        self.barrier = Barrier()
        self.held: list[tuple[Meta, tuple[int, ...]]] = []
        """The items that the barrier should hold, to be shown."""
        self.left: list[tuple[int, ...]] = []

    def come(self, time: int) -> tuple[str, ...]:
        """An item; the row of what follows."""
        changes = self.grouping.insert(KEY, SLOT, meta_of(Time(time), 0), time)
        for meta, window, tombstone in changes:
            if tombstone:
                self.barrier.drop(meta, window)
                self.held.remove((meta, window))
            else:
                self.barrier.hold(meta, SLOT, window)
                self.held.append((meta, window))
        out = " ".join(f"{'~' if tombstone else ''}{shown(window)}" for _, window, tombstone in changes)
        return str(time), self.bucket, out, self._held(), ""

    def pass_to(self, minimal: int) -> tuple[str, ...]:
        """Minimal time has moved on; the row of what leaves."""
        self.cuts.advance(Time(minimal))
        released = [window for _, _, window in self.barrier.release(Time(minimal))]
        self.left += released
        self.held = [each for each in self.held if each[1] not in released]
        return f"minimal time {minimal}", self.bucket, "", self._held(), " ".join(map(shown, released))

    @property
    def bucket(self) -> str:
        return " ".join(map(str, self.grouping.buckets[KEY].payloads))

    def _held(self) -> str:
        return " ".join(shown(window) for _, window in sorted(self.held))


def shown(window: tuple[int, ...]) -> str:
    """(1 2)."""
    return f"({' '.join(map(str, window))})"
