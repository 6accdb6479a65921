"""The text of a page of keys with their states, as JSON has them: what the port answers to a scan, and what a pod
beside a job says of its last epoch.

>>> page_text(Time(7), [("ann", 70)], "")
b'{"time":"7","rows":[{"key":"ann","state":70}]}'

Does not: read it (live/port.py).
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from flamestream.model.payloads.plain import plain
from flamestream.model.time import Time

text_of: Final = msgspec.json.Encoder(enc_hook=plain).encode
"""A value as programs without the job's classes have it."""


def page_text(time: Time, rows: Iterable[tuple[Any, Any]], cursor: str) -> bytes:
    """The page of these keys with their states; `cursor` is left out where it is ""."""
    told: list[dict[str, Any]] = [{"key": key, "state": state} for key, state in rows]
    return text_of({"time": str(time), "rows": told} | ({"cursor": cursor} if cursor else {}))
