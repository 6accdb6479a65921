"""Reply: the body of an answer, in the form that its client understands.

    application/json                      {"time": "TIME", "state": ...}, or {"time": "TIME", "rows": [...]}
    application/msgpack                   (time, states, keys, cursor), states and keys as they are encoded
    application/vnd.apache.arrow.stream   columns (name,) key, state; time and cursor in the metadata of the schema

Does not: know what was asked for in which way (door.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from flamestream.core.protocol.actions import Answered
from flamestream.model.errors import UserError
from flamestream.model.payloads.codec import decode, encode
from flamestream.net.http_exchange import Headers
from flamestream.node.queries.columns import stream_of, table_of
from flamestream.node.queries.page_text import page_pieces, text_of
from flamestream.node.queries.question import ENCODED
from flamestream.node.queries.rows import Kept, Row, cursor_of

ARROW: Final = "application/vnd.apache.arrow.stream"
Reply = tuple[int, bytes, Headers]
"""The status, the body, and headers; a body without a type is JSON."""


class Page:
    """All rows of an answer, or what a scan has found of a name."""

    def __init__(self, kept: Kept, rows: Sequence[Row], scanned: str) -> None:
        self._kept, self._rows, self.scanned = kept, rows, scanned

    def pieces(self, answer: Answered) -> Iterator[bytes]:
        """The rows of a scan as JSON, piece by piece."""
        keys = (self._kept.key(self.scanned, key) for key in answer.keys)
        states = (None if state is None else decode(state) for state in answer.states)
        yield from page_pieces(answer.time, zip(keys, states, strict=True), cursor_of(answer.upto))
        yield b"\n"

    def as_json(self, answer: Answered) -> Reply:
        time = str(answer.time)
        rows = [
            {"name": row.name, "key": row.key} | ({} if state is None else {"state": decode(state)})
            for row, state in zip(self._rows, answer.states, strict=True)
        ]
        return _of_json({"time": time, "rows": rows})

    def as_encoded(self, answer: Answered) -> Reply:
        keys = [encode(self._kept.key(self.scanned, key)) for key in answer.keys]
        body = msgspec.msgpack.encode((answer.time, answer.states, keys, answer.upto))
        return 200, body, [("content-type", ENCODED)]

    def as_arrow(self, answer: Answered) -> Reply:
        keys, states = self._found(answer)
        columns = {} if self.scanned else {"name": [row.name for row in self._rows]}
        about = {"time": str(answer.time)} | ({"cursor": cursor_of(answer.upto)} if answer.upto else {})
        try:
            table = table_of(columns | {"key": keys, "state": states}, about)
        except UserError as error:
            return 409, text_of({"error": f"{error}: ask for JSON"}), ()
        return 200, stream_of(table), [("content-type", ARROW)]

    def _found(self, answer: Answered) -> tuple[list[Any], list[Any]]:
        """Keys, with their states; None: it has none."""
        keys = [self._kept.key(self.scanned, key) for key in answer.keys] or [row.key for row in self._rows]
        return keys, [None if state is None else decode(state) for state in answer.states]


class One(Page):
    """The one row of an answer."""

    def as_json(self, answer: Answered) -> Reply:
        (row,), (state,) = self._rows, answer.states
        time = str(answer.time)
        if state is None:
            return 404, text_of({"time": time, "error": f"{row.written} has no state"}) + b"\n", ()
        return _of_json({"time": time, "state": decode(state)})


def _of_json(body: dict[str, Any]) -> Reply:
    return 200, text_of(body) + b"\n", ()
