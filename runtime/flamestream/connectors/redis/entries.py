"""From items to entries of Redis: what names an entry of a hash and what it holds, or the fields of a
stream's entry.

Sources are those of a PostgreSQL sink's columns: a field of the payload, a path, or `$payload`, `$meta`,
`$time`, `$slot`, `$bundle`, `$sink`. A str or bytes stands there as it is, `$meta` in hexadecimal digits
(which sort in the total order), everything else as JSON.

>>> text("ä"), text(b"raw"), text(1.5), text(None), text(("a", 1))
(b'\\xc3\\xa4', b'raw', b'1.5', b'null', b'["a",1]')

Keeps: entries in the order of the items. Does not: know the server.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from flamestream.connectors.kit.item_columns import Place, getter, plain, two_slots, where
from flamestream.core.protocol.actions import Bundle
from flamestream.model.errors import UserError
from flamestream.model.ids import SinkName, Slot
from flamestream.model.payload import decode_items
from flamestream.model.quoted import quoted

_encode: Final = msgspec.json.Encoder().encode


def text(value: Any) -> bytes:
    """A value as Redis holds it."""
    if type(value) is str:
        return value.encode()
    return value if type(value) is bytes else _encode(plain(value))


class EntryMaker:
    """`fields`: each field's source. With `names` entries are those of a hash, and `fields` has one.

    `names` are sources too; an entry is named by what they give, with colons between.
    """

    def __init__(self, names: Sequence[str], fields: Mapping[str, str], sink: SinkName) -> None:
        self._sink = sink
        self._names = [self._reader(source) for source in names]
        self._fields = [(name.encode(), self._reader(source)) for name, source in fields.items()]

    def entries(self, bundle: Bundle, seen: dict[bytes, Slot]) -> list[Any]:
        """The entries of a bundle, as DELIVER of redis/scripts.py takes them. `seen`: names of a hash and
        their slots in this delivery.

        Raises UserError that names the item which cannot be one.
        """
        made: list[Any] = []
        for meta, value in decode_items(bundle.items):
            place = (meta, bundle.slot, bundle.sequence)
            if not self._names:
                made.append([part for name, read in self._fields for part in (name, read(value, place))])
            else:
                name = b":".join(read(value, place) for read in self._names)
                if seen.setdefault(name, bundle.slot) != bundle.slot:
                    named = f"entries named {name.decode(errors='replace')!r}"
                    raise two_slots(named, seen[name], bundle.slot, self._sink, "the sink's `field`")
                made += (name, *(read(value, place) for _, read in self._fields))
        return made

    def _reader(self, source: str) -> Callable[[Any, Place], bytes]:
        if source == "$meta":
            return lambda value, place: place[0].hex().encode()
        get = getter(source, self._sink)

        def read(value: Any, place: Place) -> bytes:
            try:
                return text(getattr(value, source) if get is None else get(value, place))
            except (AttributeError, LookupError, TypeError, ValueError):
                raise UserError(
                    f"{where(place)}: there is no {source!r} in a {type(value).__name__}: "
                    f"{quoted(f'{value!r:.200}')}"
                ) from None

        return read
