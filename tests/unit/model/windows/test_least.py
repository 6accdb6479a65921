"""The least event time of sources, told by the progress of their partitions: as a plain loop over all that was
told has it."""

import random
from typing import Any, Final

import pytest

from flamestream.model.event_time import END_OF_TIME, Progress
from flamestream.model.windows.marks import LeastOf

FRONTS: Final = {"a": 2, "b": 1}
"""By source."""


class Plain:
    """What is known of each partition, and the mark."""

    def __init__(self, max_ahead: dict[str, int]) -> None:
        self.known: dict[tuple[str, int, str], Any] = {}
        self.mark: int | None = None
        self.moved = False
        self._max_ahead = max_ahead

    def take(self, told: Progress) -> None:
        place, at_end = (told.source, told.front, told.partition), told.times == (END_OF_TIME,)
        self.known[place] = "idle" if told.idle else self._later(self.known.get(place), told, at_end)
        if at_end:
            self.known |= {other: END_OF_TIME for other in self.known if other[:2] == place[:2]}
        fronts = {(source, front) for source, front, _ in self.known}
        times = [time for time in self.known.values() if time != "idle"]
        least = min(times) if len(fronts) == 3 and times and None not in times else None
        self.moved = least is not None and (self.mark is None or least > self.mark)
        self.mark = least if self.moved else self.mark

    def _later(self, known: Any, told: Progress, at_end: bool) -> Any:
        most = self._max_ahead.get(told.source)
        counts = [
            time
            for time in told.times
            if most is None or self.mark is None or at_end or time <= self.mark + most
        ]
        return max([*counts, *([known] if type(known) is int else [])], default=None)


def drawn(draw: random.Random) -> Progress:
    source = draw.choice(["a", "a", "b"])
    kind = draw.choices(["times", "idle", "found", "ended"], [20, 2, 2, 1])[0]
    times = tuple(sorted({draw.randrange(20) for _ in range(draw.randrange(1, 4))}, reverse=True))
    told = {"times": times, "ended": (END_OF_TIME,)}.get(kind, ())
    front, partition = draw.randrange(FRONTS[source]), draw.choice("pq")
    return Progress(source, front, partition, FRONTS[source], told, kind == "idle")


@pytest.mark.parametrize("max_ahead", [{}, {"a": 4}], ids=["any", "bounded"])
def test_the_mark_is_that_of_a_plain_loop(max_ahead: dict[str, int]) -> None:
    for seed in range(150):
        draw, plain, fold = random.Random(seed), Plain(max_ahead), LeastOf(frozenset(FRONTS), max_ahead, 1)
        least = fold.initial()
        for step in range(60):
            told = drawn(draw)
            plain.take(told)
            least = fold(least, told)
            assert (least.mark, least.moved) == (plain.mark, plain.moved), (seed, step, told)


def test_what_says_nothing_new_changes_nothing() -> None:
    """Each run tells its progress, and few move it: a state that is the same costs no snapshot anything."""
    fold, told = LeastOf(frozenset("a"), {}, 1), Progress("a", 0, "p", 1, (5,))
    moved = fold(fold.initial(), told)
    still = fold(moved, told)
    assert (moved.moved, still.moved, still.mark) == (True, False, 5)
    assert fold(still, told) is still
