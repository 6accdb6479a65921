"""The text of a page of keys with their states, as JSON has them: what the port answers to a scan, and what a pod
beside a job says of its last epoch.

>>> page_text(Time(7), [("ann", 70)], "")
b'{"time":"7","rows":[{"key":"ann","state":70}]}'
>>> page_text(Time(7), [("ann", 70), ("bob", 3)], "Ym9i")
b'{"time":"7","rows":[{"key":"ann","state":70},{"key":"bob","state":3}],"cursor":"Ym9i"}'

Does not: read it (live/port.py).
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from flamestream.model.payloads.plain import plain
from flamestream.model.time import Time

text_of: Final = msgspec.json.Encoder(enc_hook=plain).encode
"""A value as programs without the job's classes have it."""


AT_ONCE: Final = 256
"""Rows of a page that become text in one piece: less than a millisecond's work."""


def page_text(time: Time, rows: Iterable[tuple[Any, Any]], cursor: str) -> bytes:
    """The page of these keys with their states; `cursor` is left out where it is ""."""
    return b"".join(page_pieces(time, rows, cursor))


def page_pieces(time: Time, rows: Iterable[tuple[Any, Any]], cursor: str) -> Iterator[bytes]:
    """The same piece by piece, for who has something else to do in between. Rows are taken as they are needed."""
    yield text_of({"time": str(time), "rows": []})[:-2]
    left, comma = iter(rows), b""
    while some := list(islice(left, AT_ONCE)):
        yield comma + text_of([{"key": key, "state": state} for key, state in some])[1:-1]
        comma = b","
    yield b"]" + (b',"cursor":' + text_of(cursor) if cursor else b"") + b"}"
