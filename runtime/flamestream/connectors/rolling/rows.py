"""Rows of a part: where an item came from, and its payload as columns.

    _time, _meta, _slot, _sequence        global time, place in the total order, slot, number of its bundle
    <the fields of the class>             of a sink with `type`
    _value                                payloads of no or another class: as JSON, for people and SQL
    _payload                              the same in the canonical encoding, so that they come back as they
                                          were

Keeps: an item comes back byte for byte, whatever it is; nothing that was acknowledged fails to become a row.
Does not: write files.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from flamestream.connectors.kit.rows import row_class
from flamestream.connectors.rolling.columns import Columns, Misfit, columns_of
from flamestream.model import payload as codec
from flamestream.model.errors import ManifestError
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payloads.plain import plain
from flamestream.model.time import timestamp_of

PLACE: Final = ("_time", "_meta", "_slot", "_sequence")
OTHER: Final = ("_value", "_payload")
Row = tuple[bytes, int, int, Any]
"""meta, slot, sequence, payload."""


@dataclass(frozen=True, slots=True)
class RowType:
    """The columns of a sink's parts."""

    columns: Columns | None

    @property
    def names(self) -> tuple[str, ...]:
        return (*PLACE, *(self.columns.names if self.columns else ()), *OTHER)

    def values(self, row: Row) -> list[Any]:
        """A value for each column; the meta and the payload as bytes."""
        meta, slot, sequence, payload = row
        place = [timestamp_of(time_of_meta(Meta(meta))), meta, slot, sequence]
        if self.columns is None:
            return [*place, _json(payload), codec.encode(payload)]
        try:
            return [*place, *self.columns.to(payload), None, None]
        except Misfit:
            return [*place, *(None for _ in self.columns.names), _json(payload), codec.encode(payload)]

    def row(self, values: list[Any]) -> Row:
        """The row that `values` took."""
        _, meta, slot, sequence, *fields, _, payload = values
        if payload is not None:
            return meta, slot, sequence, codec.decode(payload)
        assert self.columns is not None, "a row without columns has its payload"
        return meta, slot, sequence, self.columns.back(fields)

    def arrow(self) -> Any:
        """The schema of a Parquet part."""
        import pyarrow as pa

        place = [pa.timestamp("us", "UTC"), pa.binary(), pa.int32(), pa.int64()]
        fields = [column.arrow() for column in self.columns.columns] if self.columns else []
        return pa.schema(list(zip(self.names, [*place, *fields, pa.string(), pa.binary()], strict=True)))


def row_type(type_name: str | None, where: str, text: bool = False) -> RowType:
    """The columns of a manifest's `type`; `text` if rows are JSON. Raises ManifestError."""
    cls = row_class(type_name, where)
    if cls is None:
        return RowType(None)
    columns = columns_of(cls, where, text)
    if taken := [name for name in columns.names if name in PLACE + OTHER]:
        raise ManifestError(
            f"{where}: the field {taken[0]} of {type_name} has the name of a column that every part has; "
            "rename it"
        )
    return RowType(columns)


def _json(payload: Any) -> str:
    return msgspec.json.encode(payload, enc_hook=plain).decode()
