"""A history in Parquet that stands in for a source: its rows become the records that the source would have
given.

| the source gives                        | a row of the history becomes                         |
|-----------------------------------------|------------------------------------------------------|
| instances of a class (`type`)           | an instance of that class, by the names of columns   |
| documents (`files` of text)             | an fs.Document, of columns `name` and `text`         |
| maps (rows without `type`, JSON, ...)   | an fs.Map of column to value                         |
| anything else: lines, numbers, tuples   | a tuple of its columns; of a single column its value |

Keeps: the graph takes the history as it takes the stream. Does not: read rows (parquet.py), or change a
source.
"""

from typing import Any, Final

from flamestream.connectors.files.cut_files import saved_at
from flamestream.connectors.files.spec import FilesSpec, place_of
from flamestream.connectors.kit.connector import Gives
from flamestream.model.errors import UserError

_FILES: Final = {"pattern": "**/*.parquet", "format": "parquet"}


def standing_in(path: str, source: Gives) -> dict[str, Any]:
    """The spec of a source that reads the history in `path` (a folder or a file) as a source that gives this
    would. Raises UserError."""
    return {"files": _like(source, path)}


def _like(source: Gives, path: str) -> dict[str, Any]:
    if source.cls is not None:
        return {"path": path, **_FILES, "type": source.cls}
    if source.maps:
        return {"path": path, **_FILES}
    there = _columns(path)
    if missing := [name for name in source.columns if name not in there]:
        raise UserError(
            f"{path}: the source gives the columns {', '.join(source.columns)}; the history has no "
            f"{', '.join(missing)}"
        )
    columns = list(source.columns) or (there if len(there) == 1 else [])
    return {**saved_at(path), **({"columns": columns} if columns else {})}


def _columns(path: str) -> list[str]:
    """The names of the columns of the history's first file."""
    import pyarrow as pa
    import pyarrow.parquet as pq  # here: only a history needs it

    files = place_of(FilesSpec(**saved_at(path)), "history")
    found = files.listing(settled_only=True)
    if not found:
        raise UserError(f"{path}: there is no Parquet file: a history is a file, or a folder of *.parquet")
    try:
        with files.open_seekable(found[0]) as stream:
            return list(pq.read_schema(stream).names)
    except pa.ArrowInvalid as error:
        raise UserError(f"{found[0].path}: it is not a Parquet file: {error}") from error
