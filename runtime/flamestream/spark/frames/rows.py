"""Rows: how items, states and error items travel between DataFrame jobs.

| `to`             | is                                | `key`             | `meta`                  | `payload`            |
|------------------|-----------------------------------|-------------------|-------------------------|----------------------|
| keyed vertex     | an item at its door               | canonical         | the item's              | canonical            |
| sink, or errors  | a result                          | empty             | the item's              | canonical            |
| HALT             | an error that ends the job        | the item's meta   | its run's floor         | canonical ErrorValue |
| `state_row(v)`   | vertex v's state afterwards       | canonical         | empty                   | flag, then a state   |

Canonical encodings and metas compare as bytes, so Spark sorts and groups them without a look inside.

Keeps: a row says by itself which slot it belongs to. Does not: know what a vertex does.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

HALT: Final = -(1 << 30)
"""Its floor comes before every item of its run, so that whoever sees metas ascend stops in front of them."""
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


def state_row(vertex: int) -> int:
    """`to` of the state that a keyed vertex ends with."""
    return -2 - vertex


def vertex_of_state(to: int) -> int:
    """The vertex of `state_row`."""
    return -2 - to


def halts(slots: int, meta: bytes, error: bytes) -> Any:
    """Tell every slot about the least error of a task."""
    columns = [[HALT] * slots, list(range(slots)), [meta] * slots, [meta[:8]] * slots, [error] * slots]
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


class Outbox:
    """Rows on their way out of a task, column by column."""

    __slots__ = ("key", "meta", "payload", "slot", "to")

    def __init__(self) -> None:
        self.to: list[int] = []
        self.slot: list[int] = []
        self.key: list[bytes] = []
        self.meta: list[bytes] = []
        self.payload: list[bytes] = []

    def add(self, to: int, slot: int, key: bytes, meta: bytes, payload: bytes) -> None:
        """One row."""
        self.to.append(to)
        self.slot.append(slot)
        self.key.append(key)
        self.meta.append(meta)
        self.payload.append(payload)

    @property
    def full(self) -> bool:
        """It is time to `take`."""
        return len(self.to) >= FLUSH

    def take(self) -> Iterator[Any]:
        """What is in it, as a batch (none if nothing is). It is empty then."""
        if self.to:
            columns: list[list[Any]] = [self.to, self.slot, self.key, self.meta, self.payload]
            yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
            for column in columns:
                column.clear()
