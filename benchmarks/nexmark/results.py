"""Rows of results: tuples of a query's columns, some of which are replaced by later ones."""

from collections.abc import Iterable
from typing import Any

import msgspec

import flamestream as fs

Row = tuple[Any, ...]


@fs.payload_type
class Newest(msgspec.Struct, frozen=True):
    """A row that replaces the one before it with this key, where SQL would withdraw that."""

    key: Row
    row: Row


def final(results: Iterable[Row | Newest]) -> list[Row]:
    """The rows that are left at the end, sorted."""
    rows, newest = [], {}
    for result in results:
        if isinstance(result, Newest):
            newest[result.key] = result.row
        else:
            rows.append(result)
    return sorted([*rows, *newest.values()])


def key_of(result: Row | Newest) -> Any:
    """The key of a sink: rows that replace each other have one."""
    return result.key if isinstance(result, Newest) else result[0]
