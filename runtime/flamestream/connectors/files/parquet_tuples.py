"""Rows of Parquet as tuples (`tuples: true`): the columns in their order, or the one column that is chosen.

Lists and structs are tuples, maps are fs.Map. What no payload can hold (a date, a decimal) is refused by its column's name before anything
is read: cast it where the file is written.

Does not: read files (parquet.py).
"""

from collections.abc import Iterator
from typing import Any

from flamestream.connectors.files.places import Found
from flamestream.model.collections import Map
from flamestream.model.errors import UserError


class Tuples:
    """`parquet.Payloads`."""

    def __init__(self, source: str, columns: list[str]) -> None:
        self._source, self._columns = source, columns

    def check(self, file: Found, schema: Any) -> None:
        for field in schema:
            if (not self._columns or field.name in self._columns) and not _fits(field.type):
                raise UserError(
                    f"source {self._source!r}: column {field.name!r} of {file.path} is {field.type}, which no payload can hold: cast it to "
                    "bigint, double or string where the file is written, or leave it out by `columns`"
                )

    def of(self, batch: Any) -> Iterator[Any]:
        columns = [_plain_column(column) for column in batch.columns]
        yield from columns[0] if len(self._columns) == 1 else zip(*columns, strict=True)


def _fits(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return _fits(kind.value_type)
    if types.is_struct(kind):
        return all(_fits(kind.field(number).type) for number in range(kind.num_fields))
    if types.is_map(kind):
        return _fits(kind.key_type) and _fits(kind.item_type)
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_large_string, types.is_binary, types.is_null)
    return any(test(kind) for test in plain) or types.is_large_binary(kind)


def _plain_column(column: Any) -> list[Any]:
    from pyarrow import types

    values: list[Any] = column.to_pylist()
    nested = types.is_nested(column.type)
    return [_payload(value, column.type) for value in values] if nested else values


def _payload(value: Any, kind: Any) -> Any:
    from pyarrow import types

    if value is None:
        return None
    if types.is_map(kind):
        return Map({_payload(key, kind.key_type): _payload(item, kind.item_type) for key, item in value})
    if types.is_struct(kind):
        return tuple(_payload(value[kind.field(n).name], kind.field(n).type) for n in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind):
        return tuple(_payload(member, kind.value_type) for member in value)
    return value
