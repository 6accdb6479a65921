"""Format: how files of one kind are written and read by the product, and the value of each version's.

Keeps: a version is written once. Does not: know a format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2] / "golden"


def as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Format:
    """A durable format."""

    name: str
    """As in the table of docs/reference/formats.md, and of its folder."""
    write: Callable[[Path, Any], object]
    """Today's writer: the files of a value, into an empty folder."""
    read: Callable[[Path], Any]
    """Today's reader, on a folder of its own, which it may add to."""
    values: tuple[Any, ...]
    """What the files of version 1, 2, ... say. The last is today's."""
    comparable: Callable[[Any], Any] = as_it_is
    """A value in a form in which equal means: the same with the same types."""

    @property
    def newest(self) -> int:
        return len(self.values)

    def folder(self, version: int) -> Path:
        return ROOT / self.name / str(version)

    def written(self) -> dict[str, bytes]:
        """The files of today's version, as today's writer makes them."""
        with TemporaryDirectory() as folder:
            self.write(Path(folder), self.values[-1])
            return files_in(Path(folder))

    def make(self) -> str:
        """Write today's version unless it is there; what was done. Raises FileExistsError if it is there and
        other."""
        there, made = files_in(self.folder(self.newest)), self.written()
        if not there:
            for name, data in made.items():
                file = self.folder(self.newest) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            return "written"
        if comparable(made) != comparable(there):
            raise FileExistsError(
                f"{self.folder(self.newest)} is there, and today's writer gives other bytes: put the format back, "
                f"or give {self.name!r} a value of version {self.newest + 1}"
            )
        return "there"


def files_in(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their names in it."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def comparable(files: Mapping[str, bytes]) -> dict[str, object]:
    """Files as they must stay. Of Parquet not the bytes, which are the library's of the day and its name, but
    what FlameStream says: columns, how they are stored, and rows."""
    return {name: _parquet(data) if name.endswith(".parquet") else data for name, data in files.items()}


def _parquet(data: bytes) -> object:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    groups = [file.metadata.row_group(each) for each in range(file.metadata.num_row_groups)]
    columns = [group.column(each) for group in groups for each in range(group.num_columns)]
    stored = [
        (each.path_in_schema, each.physical_type, each.compression, sorted(each.encodings))
        for each in columns
    ]
    shape = [(field.name, str(field.type), field.nullable) for field in file.schema_arrow]
    return shape, stored, sorted(file.metadata.metadata or ()), file.read().to_pylist()
