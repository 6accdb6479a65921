"""A connector: one object in one folder, with all that the engine, the command line and the operator ask of a
kind of source or sink.

    SHELF = Connector("shelf", source=ShelfSource, sink=ShelfSink)

The class of its settings answers for it: fields are what a manifest may say (their docstrings are the CRD's),
methods are what the engine asks. `flamestream.connectors.installed` has the connectors of this package;
another package adds its own by an entry point of the group `flamestream.connectors`
(docs/reference/connectors.md). `where` is the place of a source or sink in the manifest, like
spec.sources.docs: an error begins with the wrong field's place below it.

Keeps: what a kind does not say is what is safe: nothing is tried, removed, or read back. Does not: know any
kind, but in the advice that people get. Import a client library: a kind does so when a producer or consumer
is made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

import msgspec

from flamestream.connectors.kit.ownership import Owned
from flamestream.connectors.kit.spec import one_of
from flamestream.connectors.kit.standing import Place
from flamestream.fenced.reading import Item, Written
from flamestream.model.errors import UserError
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.time import FrontId
from flamestream.ports import Consumer, Post, Producer, Reactor

CANNOT_FENCE: Final = (
    "a {} sink cannot fence: it does not keep the last bundle of each slot, "
    "so after a failure it would get items twice. "
    "Choose a `files`, `rolling`, `socket`, `kafka`, `postgres` or `redis` sink, "
    "or `guarantee: at-least-once`"
)
_CANNOT_READ: Final = (
    "only a `files`, `rolling` or `kafka` sink, or a `postgres` or `redis` one with a `history`, can be read "
    "back; what others got is with whom they delivered to"
)
Ours = TypeVar("Ours", bound="Settings")


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """The properties of a source that the engine has to know."""

    timed: bool
    run_length: int
    """TIMED: a run has exactly this many records (the last one fewer), so that the same input has the same
    times."""
    replayable: bool
    """False: the payloads are journalled, and ReadRun is never asked."""
    bounded: bool
    answers: bool = False
    """Clients are answered when their records are durable, so something has to make them durable."""
    fronts: int = 1
    """The number of fronts that share what the source has, so that several workers read it."""
    skips: bool = False
    """Offsets have gaps that are not written down: an entry of no records, read again, is refused if its gap
    holds any."""
    start: int = 0
    """The first offset of a partition, unless its first run says another."""
    in_sequence: bool = False
    """A partition is whole when it is found, and read before the next: event time takes all for one."""


@dataclass(frozen=True, slots=True)
class SinkTraits:
    """The properties of a sink that the engine has to know."""

    fences: bool
    refusal: str = ""
    """Why it must be refused under exactly-once, and what to choose; "" if it need not be."""


@dataclass(frozen=True, slots=True)
class Gives:
    """The type of a source's records."""

    cls: str | None = None
    """Their class, as manifests name it; None if they are of none, or it is not known."""
    maps: bool = False
    """Maps of names to values."""
    columns: Sequence[str] = ()
    """The columns that were chosen, where the records are rows."""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The front that a producer is made for: number `share` of source `name` of `job`."""

    name: str
    job: str
    front: FrontId
    share: int
    post: Post
    reactor: Reactor
    traced: bool = False
    """Whether to give the contexts (`traceparent`) that records come with."""

    @property
    def where(self) -> str:
        """The source's place in the manifest."""
        return f"spec.sources.{self.name}"


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The worker that a consumer is made for, and its sink `name` of `job`."""

    name: SinkName
    job: str
    writer: WorkerId
    post: Post
    reactor: Reactor

    @property
    def where(self) -> str:
        """The sink's place in the manifest."""
        return f"spec.sinks.{self.name}"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part that kinds of sources and of sinks have in common."""

    file_settings: ClassVar[Sequence[str]] = ()
    """Settings that are places in the file system: what they say is relative to the manifest."""
    dials: ClassVar[str] = ""
    """The setting with the address (host:port) that a worker will dial, so that a standby can look it up
    before it is needed."""

    @classmethod
    def placed(cls, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
        """The settings as written, of a manifest in `folder`, with absolute paths."""
        return {
            name: _placed(value, folder) if name in cls.file_settings else value
            for name, value in settings.items()
        }

    def check_application(self, where: str) -> None:
        """Whether the classes that it names are there, and fit; the application is loaded. Raises
        ManifestError."""


class SourceSettings(Settings, frozen=True, kw_only=True):
    """A kind of source."""

    own_files: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Settings that name a folder with files of this source's own making, and their patterns: `reset` removes
    them."""
    of_application: ClassVar[bool] = False
    """Only its class says what it is, and that belongs to the application."""
    grows: ClassVar[bool] = False
    """It ends, and what came later can be counted, where somebody asks whether a completed job has all there
    is."""

    def traits(self, where: str) -> SourceTraits:
        """The properties that the engine has to know. Raises ManifestError."""
        raise NotImplementedError

    def outline(self, where: str) -> SourceTraits:
        """The traits as far as they are known without the application, of which no class may be imported."""
        return self.traits(where)

    def producer(self, context: SourceContext) -> Producer:
        """A producer for one front. Raises UserError."""
        raise NotImplementedError

    def gives(self) -> Gives:
        """The type of its records."""
        return Gives()

    def unpaced(self) -> "SourceSettings":
        """A source of the same records, as fast as they can be read: for an audit."""
        return self

    def sample(self, records: int, where: str) -> "SourceSettings | None":
        """A source of its first `records`, which ends; None if a server would have to be asked. Raises
        ManifestError without input."""
        return None


class SinkSettings(Settings, frozen=True, kw_only=True):
    """A kind of sink."""

    holder: ClassVar[Literal["place", "server", "nobody"]] = "server"
    """Who has the output: a place that `owned` looks into and `remove` clears, a server or another that keeps
    it, or nobody."""
    reads_back: ClassVar[bool] = False
    """Whether `read` ever gives what was delivered."""
    log: ClassVar[str] = ""
    """The setting with the folder of fenced logs that is the output, for whoever reads many logs at once."""

    def traits(self, where: str) -> SinkTraits:
        """The properties that the engine has to know. Raises ManifestError."""
        return SinkTraits(fences=True)

    def consumer(self, context: SinkContext) -> Consumer:
        """A consumer for one worker. Raises UserError."""
        raise NotImplementedError

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        """All items that it holds, in the total order. Raises UserError if they are not of `job`, where one
        is named."""
        raise UserError(f"{where}: {_CANNOT_READ}")

    def moments(self, where: str, job: str, sink: str) -> Iterator[Written]:
        """When its bundles were written, of those whose place in the sink says it: microseconds since 1970."""
        return iter(())

    def in_order(self) -> bool:
        """Whether `read` gives what was delivered in the order in which it was, and not only what stands
        somewhere now."""
        return True

    def place(self, job: str, sink: str) -> Place | None:
        """The place where the users of the output look; None if nobody looks anywhere but where `read`
        does."""
        return None

    def owned(self) -> Owned | None:
        """Whose output stands in its place; None if nobody's. Raises Corrupt if that cannot be read."""
        return None

    def remove(self) -> None:
        """Delete what it has made in its place; other files there stay, and so does a folder that has
        some."""


class ClientSettings(Settings, frozen=True, kw_only=True):
    """A kind of client that functions of calls ask with."""

    def described(self) -> str:
        """The server as messages name it, without secrets."""
        raise NotImplementedError

    def reached(self) -> Sequence[tuple[str, int]]:
        """Hosts and ports that it connects to; none for a socket of this machine."""
        raise NotImplementedError

    def opened(self, application: str) -> AbstractAsyncContextManager[Any]:
        """The client, for functions of the running loop: entered, it may connect; left, it has closed all
        connections. `application` is what the server is told that its connections are."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Connector:
    """A kind that a manifest names, as a source, a sink, a client of calls, or several of these."""

    kind: str
    source: type[SourceSettings] | None = None
    sink: type[SinkSettings] | None = None
    client: type[ClientSettings] | None = None


def cannot_fence(where: str, kind: str) -> SinkTraits:
    """The traits of a sink without any means to fence."""
    return SinkTraits(False, f"{where}: {CANNOT_FENCE.format(kind)}")


class Kinds(Generic[Ours]):
    """The kinds that a source, or a sink, may be; and what is asked of a spec, `{kind: settings}`, before and
    after it is checked."""

    def __init__(self, part: str, found: Callable[[], Mapping[str, type[Ours]]]) -> None:
        """`part`: where a spec is, if nobody says it. `found`: every kind's class, by name."""
        self._part, self._found = part, found

    def settings_of(self, spec: object, where: str = "") -> Ours:
        """The settings that a manifest says, checked. Raises ManifestError that begins with the wrong field's
        place below `where`."""
        return one_of(spec, self._found(), where or self._part)

    def check_classes(self, spec: object, where: str = "") -> None:
        """Whether the classes that `spec` names are there, and fit; the application must be loaded. Raises
        ManifestError as before."""
        self.settings_of(spec, where).check_application(where or self._part)

    def kind_of(self, spec: Mapping[str, Any]) -> type[Ours] | None:
        """The class of its settings, which may be wrong; None if there is no such kind."""
        return self._found().get(next(iter(spec), ""))

    def placed(self, spec: dict[str, Any], folder: Path) -> dict[str, Any]:
        """The spec of a manifest in `folder`, with absolute paths. One of no known kind stays as it is, for
        `settings_of` to refuse."""
        ((kind, settings),) = spec.items()
        known = self.kind_of(spec)
        return (
            spec
            if known is None or not isinstance(settings, dict)
            else {kind: known.placed(settings, folder)}
        )

    def dialled(self, spec: Mapping[str, Any]) -> str:
        """The address that a worker with this source or sink will dial; "" if none is known before."""
        known = self.kind_of(spec)
        return "" if known is None else written(spec, known.dials)


def written(spec: Mapping[str, Any], setting: str) -> str:
    """A setting that is a text, as it is written; "" if it is not there."""
    (settings,) = spec.values()
    found = settings.get(setting) if isinstance(settings, dict) else None
    return found if isinstance(found, str) else ""


def path_in(folder: Path, written: str) -> str:
    """A path of a manifest in `folder`, absolute."""
    return str(folder / Path(written).expanduser())


def _placed(written: Any, folder: Path) -> Any:
    if isinstance(written, list):
        return [_placed(each, folder) if isinstance(each, str) else each for each in written]
    return path_in(folder, written) if isinstance(written, str) and "://" not in written else written
