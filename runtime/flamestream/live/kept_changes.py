"""A row that is watched: each of its changes once, by asking for those that its table keeps (`keep_changes`) as soon as
their number is another.

    accounts.changed['ann'] = 12, accounts.changes[('ann', 0)] = (..., 11th, 12th)      seen is the 10th: two are new

A change's place is its number. Both states of an answer are of one time, below which nothing ever changes, so a number
has the same change in all answers, whichever worker gives them and whatever fails; and each answer is asked to have all
that the one before had.

Keeps: behind the place of a change comes the next one; if that is not kept any more, it is said. Does not: know how a
job is asked (its `Read` does).
"""

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from flamestream.live.port import Answer, Key
from flamestream.model.errors import UserError
from flamestream.model.tables.kept_changes import SLOT, KeptChange, changes_of, number_of, slot_of
from flamestream.model.time import START, Time
from flamestream.node.queries.committed import NOTHING

PATIENCE: Final = 10.0
"""Seconds within which a place has to be there that a watch goes on behind."""
Read = Callable[[list[Key], Time], Answer]
"""(keys, a time) -> their states as of that time or a later one. Raises as `Port.read`."""
Wait = Callable[[Key, Any, Time], None]
"""(key, its state, a time): back as soon as it has another, or in some seconds. Raises as `Port.wait`."""


@dataclass(frozen=True, slots=True)
class Change:
    """A row that a transaction has changed."""

    id: str
    """The place of the change: a watch goes on behind it."""
    key: Any
    before: Any
    after: Any
    deleted: bool = False
    """The row is no more: `after` is what it reads as."""


def watched(read: Read, wait: Wait, table: str, key: Hashable, after: str) -> Iterator[Change]:
    """The changes of a row behind the place `after`, as they come, without an end; "": all that are kept. Raises
    UserError if the next one is not kept any more, or nothing has that place, and as `read`."""
    row, place, seen, slots = f"{table}[{key!r}]", _place_of(after), START, 0
    begun = time.monotonic()
    while True:
        slot = slot_of((place or 0) + 1, slots or 1)
        answer = read([(number_of(table), key), (changes_of(table), (key, slot))], seen)
        seen, (number, kept) = answer.time, _known(answer)
        if kept and not slots:
            slots = kept[-1].slots  # the first slot is there as soon as any, and says how many there are
            place = max(0, number - SLOT * slots) if place is None else place
            continue
        place = place or 0
        end = place - place % SLOT + SLOT  # behind it the slot has those of a later turn
        new = [change for change in kept if place < change.number <= end]
        if place < number and (not new or new[0].number > place + 1):
            raise UserError(
                f"change {place + 1} of {row} is not kept any more: ask for the row, and watch it from behind {number} "
                "on; or let keep_changes keep more"
            )
        if place > number and time.monotonic() - begun > PATIENCE:
            raise UserError(f"{row} has had {number} changes: a watch cannot go on behind {place}")
        for each in new:
            yield Change(str(each.number), each.key, each.before, each.after, each.deleted)
        place += len(new)
        if place >= number:
            wait((number_of(table), key), number or NOTHING, seen)


def _place_of(after: str) -> int | None:
    if after and not after.isdecimal():
        raise UserError(f"a watch goes on behind the place of a change, a number as 12, not {after!r}")
    return int(after) if after else None


def _known(answer: Answer) -> tuple[int, list[KeptChange[Any, Any]]]:
    """The number of all changes, and those of the slot."""
    number, kept = (() if state is NOTHING else state for state in answer.states)
    of_json = (msgspec.convert(each, KeptChange) if isinstance(each, dict) else each for each in kept)
    return number or 0, list(of_json)
