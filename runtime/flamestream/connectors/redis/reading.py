"""The reader of a Redis sink's `history`: all items in the total order, for people and audits.

Keeps: per slot, bundles come in the order of their numbers. What is delivered while it is read may be in it
or not. Does not: read the user's key. Memory: a page of one slot's bundles each.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Final

from flamestream.connectors.redis.server import Server
from flamestream.fenced.reading import Item
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import Meta
from flamestream.model.payload import decode_items

PAGE: Final = 16


def read_history(server: Server, key: str, state: str = "") -> Iterator[Item]:
    """All items of the history at `key`. Raises UserError if the sink, which keeps its slots at `state`, was
    never opened."""
    server.connected()
    try:
        slots = sorted(int(slot) for slot in server.call("SMEMBERS", key))
        if not slots and not (state and server.call("EXISTS", state)):
            raise UserError(f"{server.where}: there is no {key} yet: has the job run with `history`?")
        yield from merge(*(_items(server, key, Slot(slot)) for slot in slots), key=lambda item: item[0])
    finally:
        server.hang_up()


def _items(server: Server, key: str, slot: Slot) -> Iterator[Item]:
    had = 0
    while page := server.call("LRANGE", f"{key}:{slot}", had, had + PAGE - 1):
        for items in page:
            had += 1
            for meta, value in decode_items(items):
                yield Meta(meta), slot, SequenceNumber(had), value
