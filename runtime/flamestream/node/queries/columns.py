"""Columns: keys and states as a table of Arrow.

    key: string, state: int64
    key: string, state: struct<balance: int64, since: timestamp[us, tz=UTC]>

Keeps: types are what Arrow makes of the values that are there; a class is a struct of its fields. Does not: promise the
same types for other rows: a column without a value is of type null.
"""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flamestream.model.errors import UserError
from flamestream.model.payloads.plain import plain

if TYPE_CHECKING:  # it takes a while, and most never ask for it
    import pyarrow as pa

_OF_ARROW: Final = (bytes, date, datetime, time, timedelta, Decimal)
"""Values that Arrow has types for, and JSON has not."""


def table_of(columns: dict[str, Sequence[Any]], about: dict[str, str]) -> "pa.Table":
    """A table of payloads; `about` is the metadata of its schema. Raises UserError for values that have no one type."""
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(
                msgspec.to_builtins(list(values), builtin_types=_OF_ARROW, enc_hook=plain)
            )
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise UserError(f"the values of {name!r} have no one type of Arrow: {error}") from error
    return pa.table(arrays).replace_schema_metadata(about)


def stream_of(table: "pa.Table") -> bytes:
    """The table as a stream of Arrow's IPC."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
