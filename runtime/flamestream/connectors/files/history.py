"""A history in Parquet that stands in for a source: its rows become the records that the source would have given.

| the source gives                        | a row of the history becomes                         |
|-----------------------------------------|------------------------------------------------------|
| instances of a class (`type`)           | an instance of that class, by the names of columns   |
| documents (`files` of text)             | an fs.Document, of columns `name` and `text`         |
| maps (rows without `type`, JSON, ...)   | an fs.Map of column to value                         |
| anything else: lines, numbers, tuples   | a tuple of its columns; of a single column its value |

Keeps: the graph takes the history as it takes the stream. Does not: read rows (parquet.py), or change a source.
"""

from collections.abc import Mapping
from typing import Any, Final

from flamestream.connectors.files.cut_files import saved_at
from flamestream.connectors.files.spec import FilesSpec, place_of
from flamestream.model.errors import UserError
from flamestream.model.payload_registry import name_of_type
from flamestream.model.records import Document, KafkaRecord

_FILES: Final = {"pattern": "**/*.parquet", "format": "parquet"}


def standing_in(path: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a source that reads the history in `path` (a folder or a file) as `source` would give it. Raises UserError."""
    ((kind, settings),) = source.items()
    return {"files": _like(kind, settings if isinstance(settings, dict) else {}, path)}


def _like(kind: str, given: Mapping[str, Any], path: str) -> dict[str, Any]:
    if (cls := _class(kind, given)) is not None:
        return {"path": path, **_FILES, "type": cls}
    if _gives_maps(kind, given):
        return {"path": path, **_FILES}
    there = _columns(path)
    chosen = list(given.get("columns") or ()) if kind in ("files", "postgres") else []
    if missing := [name for name in chosen if name not in there]:
        raise UserError(f"{path}: the source gives the columns {', '.join(chosen)}; the history has no {', '.join(missing)}")
    columns = chosen or (there if len(there) == 1 else [])
    return {**saved_at(path), **({"columns": columns} if columns else {})}


def class_of_records(source: Mapping[str, Any]) -> str | None:
    """The class of what a source gives, as manifests name it; None if that is no class or not known."""
    ((kind, settings),) = source.items()
    return _class(kind, settings if isinstance(settings, dict) else {})


def _class(kind: str, given: Mapping[str, Any]) -> str | None:
    if kind == "kafka" and given.get("record") == "full":
        return name_of_type(KafkaRecord)
    if kind != "files":
        return None
    documents = given.get("format", "text") == "text" and given.get("records") != "lines"
    return name_of_type(Document) if documents else given.get("type")


def _gives_maps(kind: str, given: Mapping[str, Any]) -> bool:
    if kind == "kafka":
        value = given.get("value", "text")
        return isinstance(value, dict) or value == "json"
    if kind == "redis":
        return not given.get("fields")
    return kind == "files" and given.get("format", "text") != "text" and not given.get("tuples")


def _columns(path: str) -> list[str]:
    """Of the history's first file."""
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
