"""Kept changes: the last changes of each row of a table, as states that can be asked for; so a row can be watched.

    accounts.keep_changes(100)

    accounts.changed['ann']           the number of all changes that it has had
    accounts.changes[('ann', 0)]      those in slot 0 of its 2 slots: SLOT of them, the oldest go

Changes of a row are numbered from 1 on, and SLOT of them with numbers that follow each other are in one slot, in turns.
An answer has both states as of one time, so whoever has seen some changes knows which is the next, and where it is.

Does not: ask (live/kept_changes.py).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from flamestream.model.errors import GraphError
from flamestream.model.payload import payload_type
from flamestream.model.ready import Count, field, record, state
from flamestream.model.stream import MAX_WINDOW, Stream
from flamestream.model.vertex import call_site

if TYPE_CHECKING:
    from flamestream.model.tables.transaction import Write

K = TypeVar("K")
V = TypeVar("V")
SLOT: Final = MAX_WINDOW - 1
"""Changes of a slot: the state of a group is what its next window begins with."""
MOST_KEPT: Final = 1000 * SLOT
"""Changes of a row."""


@payload_type
@dataclass(frozen=True, slots=True)
class KeptChange(Generic[K, V]):
    """A row that a transaction has changed, as `Write`."""

    number: int
    """Its place among the changes of its row, from 1 on."""
    slots: int
    """The number of slots that its row has."""
    key: K
    before: V
    after: V
    deleted: bool


def number_of(table: str) -> str:
    """The name under which the number of a row's changes is asked for."""
    return f"{table}.changed"


def changes_of(table: str) -> str:
    """The name under which a slot is asked for."""
    return f"{table}.changes"


def slot_of(number: int, slots: int) -> int:
    """The slot of the change with that number."""
    return (number - 1) // SLOT % slots


def keep(changes: "Stream[Write[Any, Any]]", table: str, last: int) -> None:
    """Have the graph keep the `last` changes of each row, and up to SLOT more. Raises GraphError."""
    if not 1 <= last <= MOST_KEPT:
        raise GraphError(
            f"{call_site()}: keep_changes({last}) of table {table!r}: 1 to {MOST_KEPT} changes of a row are kept"
        )
    slots = -(-last // SLOT)
    kept = record(KeptChange, "key", "before", "after", "deleted", number=state, slots=slots)
    changes.reduce(key=field("key"), combine=Count(), emit=kept, name=number_of(table)).group(
        MAX_WINDOW, lambda change: (change.key, slot_of(change.number, slots)), name=changes_of(table)
    )
