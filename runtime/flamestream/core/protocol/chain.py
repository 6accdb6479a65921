"""Chain: the rows of one key that count, in a snapshot of many segments: its newest full state and the
changes behind it.

>>> epochs = [(3, False, b"+c"), (1, True, b"a"), (2, True, b"b")]
>>> rows = [Row(1, 7, b"k", epoch, full, state) for epoch, full, state in epochs]
>>> [chain] = chains_of(rows)
>>> chain.full, chain.states, chain.epoch
(True, (b'b', b'+c'), 3)

A key has at most one row an epoch, so the chain of a whole snapshot is that of an older one, joined with that
of the rows since.

Keeps: rows that a newer full row supersedes have no part in it, wherever they are. Does not: look into states
(grouping.py, reduce.py).
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from flamestream.model.errors import Corrupt
from flamestream.model.ids import Epoch, Slot

VERSION_BYTES: Final = 4
DELETED: Final = b"\xc1"
"""The whole state of a key that is no more: a byte with which no payload begins. The next state that its key has is a
whole one (!), for a merge may have let this one go."""


class Row(NamedTuple):
    """A change of one key in a snapshot; a tuple, because an epoch makes thousands."""

    operation: int
    slot: Slot
    key: bytes
    epoch: Epoch
    full: bool
    state: bytes


class Chain(NamedTuple):
    """The rows of one key that count, joined: of a whole snapshot, or of all epochs above some number."""

    operation: int
    slot: Slot
    key: bytes
    epoch: Epoch
    """The epoch of its newest row."""
    full: bool
    """Whether its first state is a whole one. False: what it changes is in older rows."""
    states: tuple[bytes, ...]

    def behind(self, older: "Chain | None") -> "Chain":
        """The chain joined with that of all rows of older epochs."""
        if self.full or older is None:
            return self
        return Chain(self.operation, self.slot, self.key, self.epoch, older.full, older.states + self.states)


def chains_of(rows: Iterable[Row]) -> list[Chain]:
    """A chain for each key, of rows in any order."""
    chains: dict[tuple[int, bytes], Chain] = {}
    for operation, slot, key, epoch, full, state in sorted(rows, key=attrgetter("epoch")):
        of = operation, key
        chains[of] = Chain(operation, slot, key, epoch, full, (state,)).behind(chains.get(of))
    return list(chains.values())


def is_deleted(chain: Chain) -> bool:
    """Whether its key is no more."""
    return chain.states[0] == DELETED


def incomplete(chain: Chain) -> Corrupt:
    """The error of a snapshot that has a change without what it changes."""
    return Corrupt(
        f"the snapshot has changes of key {chain.key!r} of operation {chain.operation}, "
        "but not what they change"
    )


def older_rows(states: tuple[bytes, ...], version: int, *, shapes: bool = True) -> tuple[bytes, ...]:
    """States of another version, or with parts of older `shapes`, behind an empty one: of the version of now
    nothing is stored."""
    return (b"", version.to_bytes(VERSION_BYTES, "big"), b"\x01" if shapes else b"\x00", *states)


def is_older(states: tuple[bytes, ...]) -> bool:
    """Whether `older_rows` made them."""
    return not states[0]
