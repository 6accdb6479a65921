"""Placing: the canonical key and the slot of an item at a vertex, and where the state of a key is.

Keeps: a slot depends on the payload alone, by the vertex's key and balancing functions. Does not: know who
owns it (dataflow.py), or raise what user code raises: that becomes an error value, which names the function
at fault.
"""

from collections.abc import Callable
from typing import Any
from zlib import crc32

from flamestream.core.dataflow import user_code
from flamestream.core.protocol.queries import Lookup
from flamestream.model import payload as codec
from flamestream.model.failure import FATAL, failure, noted
from flamestream.model.ids import Slot
from flamestream.model.slot import slot_of, slot_of_hash
from flamestream.model.tables.ledger import ALL, Deciding
from flamestream.model.vertex import Vertex

Place = Callable[[Any], tuple[Any, Slot]]
"""payload -> (canonical key or ErrorValue, slot)."""
KEYS_CACHED = 65_536


def place_of(vertex: Vertex, slots: int, debug: bool) -> Place:
    """payload -> (canonical key or ErrorValue, slot). Recent `str` keys are remembered with their slot."""
    encode = codec.encode
    key_of = itself if vertex.key is None else user_code.observed(vertex.key, debug)
    balance = None if vertex.balance is None else user_code.balanced(vertex.balance, debug)
    known: dict[str, tuple[bytes, Slot]] = {}

    def place(payload: Any) -> tuple[Any, Slot]:
        called = vertex.key
        try:
            key = key_of(payload)
            # Only str: to a dict 1, True and 1.0 would be one key (!).
            if type(key) is str and (found := known.get(key)) is not None:
                return found
            encoded = encode(key)
            if balance is None:
                # `slot_of`, written out: this is asked for each item
                slot = Slot(crc32(encoded) * slots >> 32)
            else:
                called = vertex.balance
                slot = slot_of_hash(balance(key), slots)
        except FATAL as error:
            noted(error, called or itself, payload)
            raise
        except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
            # any slot: nobody looks at that of an error
            return failure(called or itself, error, payload), Slot(0)
        if type(key) is str:
            if len(known) >= KEYS_CACHED:
                # all at once: to know the oldest would cost something at each hit
                known.clear()
            known[key] = encoded, slot
        return encoded, slot

    return place


def lookup_of(vertex: Vertex, key: bytes, slots: int) -> Lookup:
    """Where the state of a canonical key of a vertex is. Raises what the user's balancing function raises."""
    if isinstance(vertex.combine, Deciding):
        return Lookup(vertex.id, slot_of(ALL, slots), key)
    if vertex.balance is not None:
        return Lookup(vertex.id, slot_of_hash(vertex.balance(codec.decode(key)), slots), key)
    return Lookup(vertex.id, slot_of(key, slots), key)


def itself(payload: Any) -> Any:
    """The key of a sink without a key function."""
    return payload
