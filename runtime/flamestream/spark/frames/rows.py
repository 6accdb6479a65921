"""Rows: how items, states and error items travel between DataFrame jobs.

| `to`            | is                          | `key`           | `meta`          | `payload` |
|-----------------|-----------------------------|-----------------|-----------------|-----|
| keyed vertex    | an item at its door         | canonical       | the item's      | canonical |
| sink, or errors | a result                    | empty           | the item's      | canonical |
| HALT            | an error that ends the job  | the item's meta | its run's floor | canonical ErrorValue |
| `state_row(v)`  | vertex v's state afterwards | canonical       | empty           | flag, then a state |
| `answer_row(v)` | of a journal, for call v    | request's hash  | the request's   | empty; of an intent INTENT |

Canonical encodings and metas compare as bytes, so Spark sorts and groups them without a look inside.

Keeps: a row says by itself which slot it belongs to. Does not: know what a vertex does.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

HALT: Final = -(1 << 30)
"""Its floor comes before every item of its run, so that whoever sees metas ascend stops in front of them."""
ANSWERS: Final = -(1 << 29)
"""From here down to HALT `to` is of answer rows; above it, of states."""
INTENT: Final = b"\x01"
FULL: Final = b"\x01"
CHANGE: Final = b"\x00"
"""In front of a state."""
FLUSH: Final = 8192
"""Rows in a batch."""
SPARK_SCHEMA: Final = "to int, slot int, key binary, meta binary, payload binary"
SCHEMA: Final = pa.schema(
    [
        pa.field("to", pa.int32()),
        pa.field("slot", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("meta", pa.binary()),
        pa.field("payload", pa.binary()),
    ]
)


OutRow = tuple[int, int, bytes, bytes, bytes]
"""(to, slot, key, meta, payload)."""


def state_row(vertex: int) -> int:
    """`to` of the state that a keyed vertex ends with."""
    return -2 - vertex


def vertex_of_state(to: int) -> int:
    """The vertex of `state_row`."""
    return -2 - to


def answer_row(vertex: int) -> int:
    """`to` of what a journal has for the requests at a call's sink."""
    return ANSWERS - vertex


def vertex_of_answer(to: int) -> int:
    """The vertex of `answer_row`."""
    return ANSWERS - to


def halts(slots: int, meta: bytes, error: bytes) -> Any:
    """Tell every slot about the least error of a task."""
    columns = [[HALT] * slots, list(range(slots)), [meta] * slots, [meta[:8]] * slots, [error] * slots]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def split(batch: Any, doors: Any) -> tuple[Any, Any]:
    """A batch's rows for `doors` (an array of vertices), and those that only pass."""
    mine = pc.is_in(batch.column("to"), value_set=doors)
    passing = batch.filter(pc.invert(mine))
    return (batch.filter(mine) if passing.num_rows else batch), passing


class Outbox:
    """Rows on their way out of a task."""

    def __init__(self) -> None:
        self._rows: list[OutRow] = []
        self.add = self._rows.append

    @property
    def full(self) -> bool:
        """Whether it is time to `take`."""
        return len(self._rows) >= FLUSH

    def take(self) -> Iterator[Any]:
        """Empty it: its rows as a batch (none if there are none)."""
        if self._rows:
            columns = zip(*self._rows, strict=True)
            yield pa.record_batch(
                [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
            # not a new list: `add` is bound to this one
            self._rows.clear()
