"""What can be seen of a source's or sink's settings: what its adapter is made of, what it reads, what it
writes."""

import functools
import os
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.connectors import clients, sinks, sources
from flamestream.connectors.files.spec import FilesSpec, reader
from flamestream.connectors.installed import sink_kinds, source_kinds
from flamestream.connectors.kafka.avro import Avro, Registry
from flamestream.connectors.kafka.connector import KafkaSourceSpec
from flamestream.connectors.kafka.formats import AvroFormat, encoder_of
from flamestream.connectors.kafka.source import KafkaReader
from flamestream.connectors.kit.spec import convert
from flamestream.connectors.synthetic.memory import channel_named
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.settings import FrontSettings
from flamestream.loop.background import Threads
from flamestream.model.ids import SinkName, Slot, SourceName, WorkerId
from flamestream.model.time import FrontId, Instant, Timestamp
from flamestream.net.kafka.clients import Clients
from flamestream.testing.consumer_contract import bundle, fence

SPECS: tuple[type, ...] = (*source_kinds().values(), *sink_kinds().values(), Avro, AvroFormat)
"""What a manifest says: as long as an adapter only holds it, nothing follows from it."""
Spec = dict[str, Any]
View = Callable[[Spec], Any]


class Now:
    """`ports.Reactor` that does everything at once and notes how long it was asked to wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._soon: deque[Callable[[], None]] = deque()
        self._later: deque[Callable[[], None]] = deque()

    def now(self) -> Timestamp:
        return Timestamp(0)

    def instant(self) -> Instant:
        return Instant(0)

    def watch(self, fd: int, **_: Any) -> None:
        """Nothing comes."""

    def unwatch(self, fd: int) -> None:
        """Nothing was watched."""

    def later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.waits.append(round(seconds, 1))
        self._later.append(call)
        return types.SimpleNamespace(cancel=lambda: None)

    def soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  # as a reactor's helpers hand it on
            result = error
        self.soon(lambda: done(result))

    def turn(self, *, timers: bool = False) -> None:
        """All that is due; with `timers` also what waits now."""
        if timers:
            waiting, self._later = self._later, deque()
            self._soon.extend(waiting)
        while self._soon:
            self._soon.popleft()()


# --- sources ------------------------------------------------------------------------------------------------


def traits(spec: Spec) -> Any:
    """What the engine knows of a source."""
    return sources.describe(spec)


def source(spec: Spec) -> Any:
    """What its producer is made of."""
    front = FrontSettings(FrontId(0), SourceName("in"), False, 0, True)
    return made_of(
        sources.build(spec, front.front, lambda event: None, Now(), name="in", job="job")
    )  # a reactor


def channel(spec: Spec) -> Any:
    """Which one of this process a memory source reads."""
    return id(channel_named(spec["memory"]["name"])) if made_of(source(spec)) else None


def records(spec: Spec) -> list[Any]:
    """All records of a files source, and their places."""
    files = reader(convert(FilesSpec, spec["files"], "w"), "in", "w")
    files.seek({})
    found: list[Any] = []
    for _ in range(20):
        for chunk in files.next(100, 1 << 20):
            found += [(str(chunk.partition), str(payload)) for payload in chunk.payloads]
    return found


def looks_again(spec: Spec) -> float:
    """After how many seconds a Kafka source looks for new partitions."""
    kafka = KafkaReader(convert(KafkaSourceSpec, spec["kafka"], "w"), 0, "in", "job")
    anything: Any = types.SimpleNamespace(
        consumer=lambda *_, **__: types.SimpleNamespace(incremental_assign=lambda _: None),
        beginnings=lambda *_: ({}, []),
        works=lambda: None,
    )
    kafka._clients = kafka._topic = anything
    kafka.seek({})
    return round(kafka._look_at - time.monotonic())


# --- sinks --------------------------------------------------------------------------------------------------


def fences(spec: Spec) -> Any:
    """What the engine knows of a sink."""
    return sinks.describe(spec).fences


def sink(spec: Spec) -> Any:
    """What its consumer is made of."""
    return made_of(_built(spec, Now(), []))


def _built(spec: Spec, reactor: Any, told: list[Any]) -> Any:
    return sinks.build(spec, SinkName("out"), WorkerId("w"), "job", told.append, reactor)


def written(spec: Spec, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Files, waits and calls to the disk after three deliveries."""
    reactor, told, synced = Now(), [], []  # type: tuple[Now, list[Any], list[int]]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: synced.append(1))
        patch.setattr(os, "fdatasync", lambda fd: synced.append(1))
        patch.setattr(Threads, "background", lambda self, work, done: reactor.background(work, done))
        consumer = _built(spec, reactor, told)
        consumer.open(OpenSink(fence(1), SinkName("out"), [Slot(0)]))
        reactor.turn()
        for number in (1, 2, 3):
            consumer.deliver(Deliver(fence(1), SinkName("out"), number, [bundle(0, number, "x" * 500)]))
            reactor.turn(timers=True)
        consumer.close()
    files = sorted(
        str(path.relative_to(folder)).rpartition(".")[2] for path in folder.rglob("*") if path.is_file()
    )
    places = sorted(path.name for path in folder.iterdir())
    return (
        places,
        len(files),
        sorted(set(files)),
        reactor.waits,
        len(synced),
        [type(event).__name__ for event in told],
    )


def looked_up(spec: Spec) -> Any:
    """What an Avro format asks its registry for, and with which login."""
    asked: list[Any] = []

    def ask(registry: Registry, path: str, body: bytes | None, kind: Any) -> Any:
        asked.append((registry._url, registry._user, path))
        return msgspec.convert({"id": 1, "schema": '"string"'}, kind)

    before, Registry._ask = Registry._ask, ask  # type: ignore[method-assign, assignment]
    try:
        encoder_of(convert(AvroFormat, spec, "w"))("text")
    finally:
        Registry._ask = before  # type: ignore[method-assign]
    return asked


# --- clients of calls ---------------------------------------------------------------------------------------


def client(spec: Spec) -> Any:
    """Where a client connects, as whom, and how often at once."""
    opened: Any = clients.settings_of(spec).opened("job")
    if "postgres" in spec:
        return opened.conninfo(), opened.max_size
    pool = opened.connection_pool
    login = pool.connection_kwargs.get("credential_provider")
    return pool.max_connections, pool.connection_kwargs["host"], login and login.get_credentials()


# --- what something is made of ------------------------------------------------------------------------------


def made_of(thing: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Plain values for everything that an adapter holds, but for what the manifest itself says."""
    if thing is None or isinstance(thing, str | int | float | bytes | Enum):
        return thing
    if isinstance(thing, Path):
        return str(thing)
    if id(thing) in seen or isinstance(thing, SPECS):
        return None
    inner = seen | {id(thing)}
    if isinstance(thing, Clients):
        plain = thing._settings({}, (), {})
        return {name: value for name, value in plain.items() if isinstance(value, str | int | float)}
    if isinstance(thing, Mapping):
        return sorted((str(key), repr(made_of(value, inner))) for key, value in thing.items())
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return [made_of(each, inner) for each in thing]
    if isinstance(thing, functools.partial):
        return made_of([thing.func, *thing.args, thing.keywords], inner)
    if isinstance(thing, types.MethodType):
        return thing.__func__.__qualname__, made_of(thing.__self__, inner)
    if isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return thing.__qualname__, made_of(cells, inner)
    if type(thing).__module__.startswith(("flamestream", "tests.")):
        return type(thing).__name__, [(name, made_of(value, inner)) for name, value in _held(thing)]
    return getattr(thing, "__qualname__", type(thing).__qualname__)


def _held(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, msgspec.Struct):
        yield from ((name, getattr(thing, name)) for name in thing.__struct_fields__)
        return
    yield from vars(thing).items() if hasattr(thing, "__dict__") else ()
    for cls in type(thing).__mro__:
        for name in getattr(cls, "__slots__", ()):
            if hasattr(thing, name):
                yield name, getattr(thing, name)
