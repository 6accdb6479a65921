"""Rows: the keys whose states can be asked for, by name.

    visits['ann']        the accumulator of a reduce, or the last items of a group, by the name of its state
    accounts['ann']      a row of a table

Does not: know where a state is (committed.py, door.py).
"""

import ast
import re
from dataclasses import dataclass
from typing import Any, Final

from flamestream.model.errors import ManifestError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import encode

_ROW: Final = re.compile(r"(.+?)\[(.+)\]")


@dataclass(frozen=True, slots=True)
class Row:
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
        self._tables = frozenset(() if graph.ledger is None else graph.ledger.deciding.rules)

    def row(self, name: str, key: Any) -> Row:
        """The row of a key. Raises ManifestError, and PayloadError for a key that is no payload."""
        if name not in self._vertices:
            known = ", ".join(map(repr, self._vertices))
            raise ManifestError(
                f"graph {self._graph.name!r} keeps nothing named {name!r}: it has {known or 'no state at all'}"
            )
        in_table = name in self._tables
        return Row(name, key, self._vertices[name], encode((name, key) if in_table else key), in_table)


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
