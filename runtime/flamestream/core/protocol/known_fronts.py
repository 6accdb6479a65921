"""Known fronts: which number each front of a job has, by the name of its source, whatever becomes of the graph.

    numbers      0         1         2          3
    known        orders    payments  payments   rates        and for good: rates came last, wherever it stands

A number is part of every time that the front has stamped, of its journal's name and of its position in a
snapshot. So it stays with its name, also while no source of the graph is called so, and is never another's
(!): whoever is new has a journal that nobody has written to.

A front that is new, or that comes back, in a stream that has run begins behind everything that was stamped
so far. For a journalled one its journal remembers that; a timed one stamps by its input alone, so the job
record says where it begins, before anybody hears of it (!).

Keeps: no front has another one's journal or position. Does not: decide whether a source may go
(core/coordinator/recovery.py).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from flamestream.model.errors import UserError
from flamestream.model.time import MAX_FRONTS, START, FrontId, Time


class KnownFront(msgspec.Struct, frozen=True, omit_defaults=True):
    """A front that has a number in a job; its place among others is the number."""

    name: str
    """That of its source; of a clock also how often it ticks."""
    begins: Annotated[Time, Meta(ge=START)] | None = START
    """Its first stamp, and the first since it was away, is behind. None: it has not begun."""
    away: bool = False
    """The graph that ran last has no such source."""
    again: bool = False
    """It was away, and has come back."""
    runs: Annotated[int, Meta(ge=0)] | None = None
    """Records that enter at one time, for good once it has begun (!): other times would be other metas, and what
    consumers have is found by these. 0: its journal has its times. None: an older release has not said."""


def numbers_of(names: Sequence[str], known: Sequence[str]) -> list[FrontId]:
    """The number of each of these fronts: the first of a name has the first number that `known` has for it."""
    assert not Counter(names) - Counter(known), f"of {names} some have no number: {known}"
    left = {name: _places(name, known) for name in names}
    return [next(left[name]) for name in names]


def with_new(known: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Whose each number is, when fronts of these names take part. Raises UserError if there are no more
    numbers."""
    left, added = Counter(known), []
    for name in names:
        if left[name]:
            left[name] -= 1
        else:
            added.append(name)
    if len(known) + len(added) > MAX_FRONTS:
        raise UserError(
            f"the job's sources have had {len(known)} fronts, and {len(added)} more are needed: there are "
            f"{MAX_FRONTS} in the life of a job, as none is used again. Begin anew with `flamestream reset`"
        )
    return (*known, *added)


def taking_part(names: Sequence[str], known: Sequence[KnownFront]) -> frozenset[FrontId]:
    """The numbers of the fronts that a graph has; `names`: of its fronts."""
    return frozenset(numbers_of(names, [front.name for front in known]))


def begun(known: Sequence[KnownFront], part: Collection[FrontId], bound: Time) -> tuple[KnownFront, ...]:
    """The fronts when those of these numbers begin to run, and everything so far was stamped at or below
    `bound`."""
    return tuple(_begun(front, FrontId(number) in part, bound) for number, front in enumerate(known))


def _begun(front: KnownFront, takes_part: bool, bound: Time) -> KnownFront:
    if not takes_part:
        # One that never began is still to begin.
        return front if front.begins is None else replace(front, away=True)
    if front.begins is None:
        return replace(front, begins=bound)
    return replace(front, begins=bound, away=False, again=True) if front.away else front


def _places(name: str, known: Sequence[str]) -> Iterator[FrontId]:
    return (FrontId(number) for number, other in enumerate(known) if other == name)
