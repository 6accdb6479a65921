"""Sources: what a manifest may name, what the engine has to know of each, and its producer.

| kind      | front                                    | offset counts                    | read again from       |
|-----------|------------------------------------------|----------------------------------|-----------------------|
| files     | timed; journalled with `follow: true`    | records; of each file if followed| the files             |
| generator | timed                                    | numbers                          | the numbers           |
| socket    | journalled, with its payloads            | records                          | the journal           |
| parquet   | timed                                    | rows                             | the files             |
| memory    | journalled                               | records of each partition        | this process (tests)  |

>>> describe({"generator": {"count": 10}})
SourceTraits(timed=True, run_length=64, replayable=True, bounded=True)
>>> describe({"files": {"path": "in", "folow": True}}, "spec.sources.docs")
Traceback (most recent call last):
flamestream.model.errors.ManifestError: spec.sources.docs.files: Object contains unknown field `folow` (its fields: path, paths, ...)

Does not: read the manifest's file (cli/manifest.py).
"""

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from flamestream.adapters.sources.contents import Contents
from flamestream.adapters.sources.followed import FollowedReader
from flamestream.adapters.sources.generator import GeneratorProducer
from flamestream.adapters.sources.listed import ListedReader
from flamestream.adapters.sources.listing import places
from flamestream.adapters.sources.memory import MemoryProducer, channel_named
from flamestream.adapters.sources.reading import Reader, ReadingProducer
from flamestream.adapters.sources.socket_source import SocketProducer
from flamestream.adapters.spec import address_of, function_of, one_of
from flamestream.model.records import Document
from flamestream.model.time import FrontId
from flamestream.ports import Post, Producer, Reactor

__all__ = ["Document", "SourceTraits", "build", "describe"]

MAX_RUN_LENGTH: Final = 64
_RUNS_A_SECOND: Final = 1000


class FilesSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder or list of files; a record is a file or a line."""

    path: str | None = None
    paths: list[str] = []
    pattern: str = "**/*"
    records: Literal["files", "lines"] = "files"
    follow: bool = False
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if (self.path is None) == (not self.paths):
            raise ValueError("give either `path` or `paths`")
        if len(set(self.paths)) < len(self.paths):
            raise ValueError("`paths` names a path twice")
        try:
            newline = "\n".encode(self.encoding)
        except LookupError:
            raise ValueError(f"`encoding`: Python has no text encoding {self.encoding!r}") from None
        if self.records == "lines" and newline != b"\n":
            raise ValueError(f"`encoding`: lines of {self.encoding} cannot be told apart by their newlines; use records: files")


class GeneratorSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Numbers, or a function (`module:name`) of each."""

    count: int | None = None
    rate: float | None = None
    """Numbers a second."""
    function: str | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 0:
            raise ValueError("`count` cannot be negative")
        if self.rate is not None and self.rate <= 0:
            raise ValueError("`rate` must be above 0; leave it out for as fast as possible")


class ParquetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rows of a Parquet file or of a folder of them."""

    path: str
    columns: list[str] | None = None


class SocketSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A producer to dial; see docs/wire-protocol.md."""

    address: str
    payload: Literal["text", "bytes"] = "text"

    def __post_init__(self) -> None:
        address_of(self.address)


class MemorySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A channel of this process."""

    name: str


SourceSpec = FilesSpec | GeneratorSpec | ParquetSpec | SocketSpec | MemorySpec
_KINDS: Final[dict[str, type[SourceSpec]]] = {
    "files": FilesSpec,
    "generator": GeneratorSpec,
    "parquet": ParquetSpec,
    "socket": SocketSpec,
    "memory": MemorySpec,
}


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """What the engine has to know of a source."""

    timed: bool
    run_length: int
    """TIMED: a run has exactly this many records (the last one fewer), so that the same input has the same times."""
    replayable: bool
    """False: the payloads are journalled, and ReadRun is never asked."""
    bounded: bool


def describe(spec: object, where: str = "source") -> SourceTraits:
    """Check `spec` and say what it is. Raises ManifestError that begins with the wrong field's place below `where`."""
    match one_of(spec, _KINDS, where):
        case FilesSpec(follow=True):
            return SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)
        case FilesSpec(records=records):
            return SourceTraits(timed=True, run_length=1 if records == "files" else MAX_RUN_LENGTH, replayable=True, bounded=True)
        case GeneratorSpec(count=count, rate=rate):
            length = MAX_RUN_LENGTH if rate is None else max(1, min(MAX_RUN_LENGTH, int(rate / _RUNS_A_SECOND)))
            return SourceTraits(timed=True, run_length=length, replayable=True, bounded=count is not None)
        case ParquetSpec():
            return SourceTraits(timed=True, run_length=MAX_RUN_LENGTH, replayable=True, bounded=True)
        case SocketSpec():
            return SourceTraits(timed=False, run_length=0, replayable=False, bounded=False)
        case MemorySpec():
            return SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)


def build(spec: object, front: FrontId, post: Post, reactor: Reactor, *, name: str = "source", job: str = "") -> Producer:
    """The producer of front `front`. `name` is the source's in the manifest, for messages and for the far end of a socket."""
    where = f"spec.sources.{name}"
    match one_of(spec, _KINDS, where):
        case FilesSpec() as files:
            return ReadingProducer(_reader(files, name), front, post, reactor)
        case GeneratorSpec(count=count, rate=rate, function=function):
            called = None if function is None else function_of(function, f"{where}.generator.function")
            return GeneratorProducer(count, rate, called, front, post, reactor)
        case ParquetSpec(path=path, columns=columns):
            from flamestream.adapters.sources.parquet import ParquetReader, Table  # lazily: few jobs need pyarrow's Parquet

            return ReadingProducer(ParquetReader(Table.at(name, path, columns)), front, post, reactor)
        case SocketSpec(address=address, payload=payload):
            return SocketProducer(address_of(address), payload == "bytes", name, job, front, post, reactor)
        case MemorySpec(name=channel):
            return MemoryProducer(channel_named(channel), front, post, reactor)


def _reader(spec: FilesSpec, name: str) -> Reader:
    kind = FollowedReader if spec.follow else ListedReader
    return kind(places(spec.path, spec.paths), spec.pattern, spec.records == "lines", Contents(name, spec.encoding))
