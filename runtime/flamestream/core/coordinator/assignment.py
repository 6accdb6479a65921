"""Assignment: the next layout from the last one, balanced, moving as little as possible.

>>> a, b, c = WorkerId("a"), WorkerId("b"), WorkerId("c")
>>> first = next_layout(None, [a, b], slots=4, fronts=1)
>>> first.owners, first.fronts, first.acker, first.version
(('a', 'a', 'b', 'b'), ('a',), 'b', 1)
>>> next_layout(first, [b, c], slots=4, fronts=1).owners      # c takes a's place, b keeps what it has
('c', 'c', 'b', 'b')

Keeps: every slot and every front has an owner among the members; where their number changes nobody has more
than one slot more than another, nor ever one front more; no assignment with that balance moves fewer slots;
the version grows by one exactly when something changed. Does not: choose the members (takeover.py), or know
what a slot costs (balance.py).
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from flamestream.model.ids import LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import FrontId

NOBODY: Final = WorkerId("")


def next_layout(
    old: Layout | None, members: Sequence[WorkerId], slots: int, fronts: int, away: Collection[FrontId] = ()
) -> Layout:
    """The layout of `members`: `old` itself (with its version) if it is that already. `away`: fronts that have
    nothing to do but to be sealed."""
    assert members, "a layout needs a worker"
    owners = replaced(old.owners if old else (), members, slots)
    layout = _with_fronts(old, owners, members, fronts, away)
    return old if old is not None and _same(layout, old) else layout


def relaid(old: Layout, owners: Sequence[WorkerId], fronts: int, away: Collection[FrontId] = ()) -> Layout:
    """The layout in which the slots are `owners`', all of whom are in `old`; nobody else has a part in it."""
    return _with_fronts(old, owners, sorted(set(owners)), fronts, away)


def _with_fronts(
    old: Layout | None, owners: Sequence[WorkerId], members: Sequence[WorkerId], fronts: int,
    away: Collection[FrontId],
) -> Layout:  # fmt: skip
    """The next layout with these owners of slots."""
    part = [number for number in range(fronts) if number not in away]
    # Those that are new had nobody.
    had = [*(old.fronts if old else ()), *[NOBODY] * fronts]
    front_owners = spread([had[number] for number in part], members, len(part))
    acker = _acker(old, members, front_owners)
    owner_of = dict(zip(part, front_owners, strict=True))
    version = LayoutVersion(old.version + 1 if old else 1)
    return Layout(
        version, tuple(owners), tuple(owner_of.get(number, acker) for number in range(fronts)), acker
    )


def _same(one: Layout, other: Layout) -> bool:
    """Whether they differ in their version alone."""
    return (one.owners, one.fronts, one.acker) == (other.owners, other.fronts, other.acker)


def replaced(old: Sequence[WorkerId], members: Sequence[WorkerId], count: int) -> tuple[WorkerId, ...]:
    """An owner for each of `count` slots: where as many had them before, whoever is new has the slots of one
    that is gone, so that what was moved for its load stays moved. Else `spread`."""
    before = set(old)
    if len(old) != count or len(before) != len(members):
        return spread(old, members, count)
    gone, new = sorted(before - set(members)), sorted(set(members) - before)
    places = dict(zip(gone, new, strict=True))
    return tuple(places.get(owner, owner) for owner in old)


def spread(old: Sequence[WorkerId], members: Sequence[WorkerId], count: int) -> tuple[WorkerId, ...]:
    """An owner for each of `count` things. A thing stays with its owner in `old` as far as balance allows."""
    room = _room(old[:count], members, count)
    owners: list[WorkerId | None] = [None] * count
    for thing, owner in enumerate(old[:count]):
        if room.get(owner, 0) > 0:
            room[owner] -= 1
            owners[thing] = owner
    free = iter([member for member in room for _ in range(room[member])])
    return tuple(next(free) if owner is None else owner for owner in owners)


def _room(old: Sequence[WorkerId], members: Sequence[WorkerId], count: int) -> dict[WorkerId, int]:
    """The number of things that each member shall have: those that have most now may keep one more."""
    have = Counter(old)
    # by name where they have as many: the layout is the same in whatever order they came
    ranked = sorted(members, key=lambda member: (-have[member], member))
    each, more = divmod(count, len(ranked))
    return {member: each + (place < more) for place, member in enumerate(ranked)}


def _acker(old: Layout | None, members: Sequence[WorkerId], fronts: Sequence[WorkerId]) -> WorkerId:
    """The member with the fewest fronts, the one that has it already if that is one. Whoever reads a run
    hands others their share before it begins its own, so they are the last to finish, and the one that
    finishes last should know without asking that all have."""
    have = Counter(fronts)
    fewest = min(have[member] for member in members)
    candidates = sorted(member for member in members if have[member] == fewest)
    return old.acker if old and old.acker in candidates else candidates[0]
