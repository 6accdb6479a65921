"""Rows: the keys whose states can be asked for, by name.

    visits['ann']        the accumulator of a reduce, or the last items of a group, by the name of its state
    accounts['ann']      a row of a table

>>> behind(cursor_of(b"ann"))
b'ann'

Does not: know where a state is (committed.py, door.py).
"""

import ast
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

import msgspec

from flamestream.core.protocol.queries import Matching
from flamestream.model.errors import ManifestError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import decode, encode

_ROW: Final = re.compile(r"(.+?)\[(.+)\]")


class Row(msgspec.Struct, frozen=True):
    """A key whose state is asked for."""

    name: str
    """The name of its table, or of its operation's state."""
    key: Any
    vertex: int
    encoded: bytes
    """The key as its vertex has it."""
    in_table: bool

    @property
    def written(self) -> str:
        """The same for people."""
        return f"{self.name}[{self.key!r}]"


class Kept:
    """The states of a graph, by name."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._vertices = graph, graph.kept
        deciding = None if graph.ledger is None else graph.ledger.deciding
        self._tables = {} if deciding is None else {name: deciding.stored(name) for name in deciding.rules}
        """The name that the rows of each table are stored by."""

    def row(self, name: str, key: Any) -> Row:
        """The row of a key. Raises ManifestError, and PayloadError for a key that is no payload."""
        vertex, in_table = self._vertex(name), name in self._tables
        return Row(name, key, vertex, encode((self._tables[name], key) if in_table else key), in_table)

    def matching(self, name: str, prefix: str | None) -> tuple[int, Matching]:
        """The vertex of a name, and which of its keys are meant. Raises ManifestError."""
        head = encode((self._tables[name], ""))[:-1] if name in self._tables else b""
        return self._vertex(name), Matching(head, prefix)

    def key(self, name: str, encoded: bytes) -> Any:
        """The key of a row, given it as its vertex has it."""
        key = decode(encoded)
        return key[1] if name in self._tables else key

    def _vertex(self, name: str) -> int:
        if name not in self._vertices:
            known = ", ".join(map(repr, self._vertices))
            raise ManifestError(
                f"graph {self._graph.name!r} keeps nothing named {name!r}: it has {known or 'no state at all'}"
            )
        return self._vertices[name]


def cursor_of(key: bytes) -> str:
    """The place behind a key, as clients have it; "" behind none."""
    return urlsafe_b64encode(key).decode()


def behind(cursor: str) -> bytes:
    """The key that a page goes on behind. Raises ManifestError for what no `cursor_of` gives."""
    try:
        return urlsafe_b64decode(cursor)
    except ValueError as error:
        raise ManifestError(f"cursor is what an earlier answer said, not {cursor!r}") from error


def split(written: str) -> tuple[str, Any]:
    """The name and the key of `NAME[KEY]`, where a key is a literal of Python. Raises ManifestError."""
    found = _ROW.fullmatch(written.strip())
    if found is None:
        raise ManifestError(f'{written!r} is no row: write NAME[KEY], as in "visits[\'ann\']" or "totals[7]"')
    try:
        return found[1], ast.literal_eval(found[2])
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ManifestError(
            f"{written!r}: the key is no literal of Python, as 'ann', 7 or ('ann', 7) are: a text needs quotes"
        ) from error
