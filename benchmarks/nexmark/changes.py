"""Changes of rows as Flink writes them: a line begins with its kind, and has the columns as JSON.

| kind | |
|---|---|
| +I, +U | a row more |
| -U, -D | one less |
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from nexmark.results import Row

Change = tuple[str, Row]
"""A kind and a row."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z?$")


def change(line: bytes) -> Change:
    """The change that a line says, its row as the other systems have it: times in ms, decimals of three
    places in thousandths.

    >>> change(b'+I{"auction":1,"EXPR$1":90.8,"at":"2015-07-15 00:00:01.5Z"}')
    ('+I', (1, 90800, 1436918401500))
    """
    return line[:2].decode(), tuple(map(_value, msgspec.json.decode(line[2:]).values()))


def left(changes: Iterable[Change], key: int = 0) -> list[Row]:
    """The rows that are left at the end, sorted. Where rows have a key, their first `key` columns, the last
    one with it replaces those before it. Raises ValueError for a row that goes without having come."""
    if key:
        return sorted({row[:key]: row for _, row in changes}.values())
    rows: Counter[Row] = Counter()
    for kind, row in changes:
        rows[row] += 1 if kind in ("+I", "+U") else -1
    if gone := [row for row, count in rows.items() if count < 0]:
        raise ValueError(f"{len(gone)} rows go that never came, as {gone[0]}")
    return sorted(rows.elements())


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return round(value * 1000)
    if isinstance(value, str) and _TIME.match(value):
        return round(datetime.fromisoformat(value.rstrip("Z") + "+00:00").timestamp() * 1000)
    return value
