"""Changes to a past run: one thing each that can have gone wrong with what was given, recorded or committed.

Does not: say what an audit has to find (damage.py), or change how a sink keeps it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from flamestream.core.protocol.events import Entry
from flamestream.model.ids import Offset, Slot
from flamestream.model.meta import Meta, meta_of
from flamestream.model.time import START
from support.runs.past_run import (
    WORKERS,
    Given,
    PastRun,
    results_of,
    run_time,
)

Change = Callable[[PastRun], None]


def without(*numbers: int) -> Change:
    """Of these lines there is no result."""

    def change(past: PastRun) -> None:
        metas = {_item(past, number).meta for number in numbers}
        past.given = [[item for item in call if item.meta not in metas] for call in past.given]

    return change


def without_slots(*slots: int) -> Change:
    def change(past: PastRun) -> None:
        past.given = [[item for item in call if item.slot not in slots] for call in past.given]

    return change


def without_worker(past: PastRun) -> None:
    without_slots(*WORKERS[next(iter(WORKERS))])(past)


def only(runs: slice) -> Change:
    """Results of these runs only."""

    def change(past: PastRun) -> None:
        past.given = past.given[runs]

    return change


def again(number: int, call: int, place: int | None = None) -> Change:
    """A line's result once more, in a call; at its end if no place is said."""

    def change(past: PastRun) -> None:
        past.given[call].insert(len(past.given[call]) if place is None else place, _item(past, number))

    return change


def all_again(past: PastRun) -> None:
    past.given += [list(call) for call in past.given]


def a_call_again(past: PastRun) -> None:
    past.given.insert(3, list(past.given[2]))


def exchanged(one: int, other: int) -> Change:
    """Two results come at each other's moment."""

    def change(past: PastRun) -> None:
        (a, i), (b, j) = _place(past, one), _place(past, other)
        past.given[a][i], past.given[b][j] = past.given[b][j], past.given[a][i]

    return change


def replaced(number: int, **fields: Any) -> Change:
    """A line's result is another."""

    def change(past: PastRun) -> None:
        call, place = _place(past, number)
        past.given[call][place] = past.given[call][place]._replace(**fields)

    return change


def values_exchanged(past: PastRun) -> None:
    """Of two slots: each has the other's value under its own meta."""
    one, other = _item(past, 0), _item(past, 1)
    replaced(0, payload=other.payload, slot=other.slot)(past)
    replaced(1, payload=one.payload, slot=one.slot)(past)


def slots_exchanged(past: PastRun) -> None:
    one, other = _item(past, 1), _item(past, 3)
    replaced(1, slot=other.slot)(past)
    replaced(3, slot=one.slot)(past)


def in_slot(word: str, slot: int) -> Change:
    """All of a word, elsewhere."""

    def change(past: PastRun) -> None:
        moved = [
            [item._replace(slot=Slot(slot)) if item.payload[0] == word else item for item in call]
            for call in past.given
        ]
        past.given = moved

    return change


def foreign(*items: Given) -> Change:
    def change(past: PastRun) -> None:
        past.given.append(list(items))

    return change


def of_another_job(past: PastRun) -> None:
    past.given = results_of([f"other-{line}" for line in past.lines], past.length)


def nothing(past: PastRun) -> None:
    """No damage."""


def without_runs(runs: Iterable[int], *, given: bool = False) -> Change:
    """Gone from the journal; `given`: and everything that the reference would not give without them."""
    gone = frozenset(runs)

    def change(past: PastRun) -> None:
        past.entries = [entry for number, entry in enumerate(past.entries) if number not in gone]
        if given:
            left = [number for number in range(len(past.given)) if number not in gone]
            lines = [line for number, line in enumerate(past.lines) if number // past.length not in gone]
            past.given = [
                [item._replace(meta=Meta(meta_of(run_time(number), 0)[:8] + item.meta[8:])) for item in call]
                for number, call in zip(left, results_of(lines, past.length), strict=True)
            ]

    return change


def recorded_twice(past: PastRun) -> None:
    """The last run, at a later time as well."""
    last = past.entries[-1]
    past.entries.append(
        Entry(run_time(len(past.entries)), last.partition, last.first, last.count, last.payloads)
    )


def recorded_beyond(past: PastRun) -> None:
    """The first run below the cut has twice its records."""
    first = past.entries[0]
    past.entries[0] = Entry(first.time, first.partition, Offset(0), 2 * first.count)


def line_of_another_word(past: PastRun) -> None:
    past.lines[0] = "oak 0"


def more_lines(past: PastRun) -> None:
    past.lines += ["ash again", "elm again"]


def without_last_line(past: PastRun) -> None:
    past.lines.pop()


def without_lines(past: PastRun) -> None:
    past.lines.clear()


def no_input(past: PastRun) -> None:
    """Nothing has ever entered."""
    past.lines.clear()
    past.entries.clear()
    past.given.clear()
    past.positions.clear()
    past.last_stamp = START


def uncommitted(past: PastRun) -> None:
    past.committed = False


def drained(past: PastRun) -> None:
    past.outcome, past.cut, past.last_stamp, past.positions = (
        "drained",
        run_time(10),
        run_time(9),
        {"lines.txt": 40},
    )


def holds(runs: slice) -> Change:
    """The epoch holds what these runs give, which has not left yet."""

    def change(past: PastRun) -> None:
        past.guarantee = "exactly-once-2pc"
        past.held = frozenset(
            item.meta for call in results_of(past.lines, past.length)[runs] for item in call
        )

    return change


def both(*changes: Change) -> Change:
    def change(past: PastRun) -> None:
        for each in changes:
            each(past)

    return change


def _place(past: PastRun, number: int) -> tuple[int, int]:
    """Of a line's result."""
    meta = meta_of(run_time(number // past.length), number % past.length)
    return next(
        (i, j) for i, call in enumerate(past.given) for j, item in enumerate(call) if item.meta == meta
    )


def _item(past: PastRun, number: int) -> Given:
    call, place = _place(past, number)
    return past.given[call][place]
