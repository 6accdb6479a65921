"""A worker's process: the graph, the ports, the pure worker, and the loop that joins them.

`run` is called by a Spark task, or by `python -m flamestream.node.worker_process CONFIG.json`, which needs no
Spark. It returns when the coordinator says so (0), when a newer attempt has fenced this worker, or when the
job's application does not load. A bug, or an error that a port raises, is told to the coordinator before the
process ends; running out of memory or stack is not: that is a failure of this worker, and whether it comes
again is counted by the coordinator.

Keeps: a worker is one process and one loop. Does not: decide anything (core/worker/worker.py), or start
anything.
"""

import logging
import secrets
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from flamestream.connectors import sinks, sources
from flamestream.connectors.kit.spec import secret_of
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.protocol.actions import ToldCoordinator
from flamestream.core.protocol.events import Event
from flamestream.core.protocol.messages import Failed
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.worker.worker import Worker
from flamestream.job.application import load
from flamestream.job.application_code import code_found
from flamestream.job.exit_codes import BY_CATEGORY, ended_by
from flamestream.job.manifest_queries import Queries
from flamestream.job.manifest_tracing import Tracing
from flamestream.job.py_files import PyFile
from flamestream.journal import places as journals
from flamestream.journal.none import NoJournal
from flamestream.loop import watchdog
from flamestream.loop.gathering import Gathering
from flamestream.loop.reactor import EpollReactor
from flamestream.machine import process_shell
from flamestream.machine.processors import keep_to
from flamestream.model.calls.call import change_calls
from flamestream.model.calls.productions import asked_of, productions_of
from flamestream.model.errors import FlameStreamError
from flamestream.model.event_time import take_in_sequence
from flamestream.model.failure import FATAL
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.kernel import WHY_NOT, kernel
from flamestream.model.time import FrontId
from flamestream.net.acceptor import address_of, listen
from flamestream.net.control_link import ControlClient
from flamestream.net.known_names import ask
from flamestream.net.links import TcpLinks
from flamestream.node.busy_meter import EVERY, BusyMeter
from flamestream.node.calls.caller import Caller
from flamestream.node.calls.process import CallerConfig
from flamestream.node.calls.productions import Productions
from flamestream.node.discretion import Discretion
from flamestream.node.kept_code import as_begun
from flamestream.node.queries.door import QueryDoor
from flamestream.node.worker_host import OnDemand, Ports, Stepped, WorkerHost
from flamestream.ports import Consumer, Journal, Producer, Troubled
from flamestream.store.lazy import LazyStore
from flamestream.store.places import store_from
from flamestream.store.snapshots import StoreSnapshots

if TYPE_CHECKING:
    from flamestream.node.tracing.export import SpanExport

log = logging.getLogger(__name__)
MOST_BYTES: Final = 16 << 20
"""Bytes of an answer that a journal in a folder or a topic takes."""
MOST_IN_ZOOKEEPER: Final = 64 << 10


class WorkerProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a worker's process is told from outside. Holds the job's token: for its owner's eyes
    only."""

    worker: WorkerId
    coordinator: str
    """host:port"""
    token: str
    application: str
    """Path of the application's Python file."""
    graph: str
    """Name of the graph in that file."""
    py_files: tuple[PyFile, ...] = ()
    """Files that the application needs on Python's path, by content."""
    code: str = ""
    """Digest of the application that is meant; "": the one that is there."""
    kept: str = ""
    """Folder with copies of applications (kept_code.py); "": there are none."""
    productions: bool = False
    """`strong-productions`: with a call in the place of each chain of its functions."""
    settings: WorkerSettings
    sources: dict[str, dict[str, object]]
    sinks: dict[str, dict[str, object]]
    clients: dict[str, dict[str, object]] = {}
    """Clients that the manifest names for calls to ask with."""
    queries: Queries | None = None
    """The port for those who ask for states, with an absolute path of its token; None: there is none."""
    tracing: Tracing | None = None
    """Which runs are traced, and where to; None: nothing is."""
    store: str
    journal: journals.JournalConfig | None = None
    host: str = "127.0.0.1"
    """The address to listen on for other workers; 0.0.0.0 or :: means that `advertised` says how they reach
    it."""
    advertised: str = ""
    beside: int = 0
    """The number of workers that share the work on one machine; 0: unknown."""
    processors: tuple[int, ...] = ()
    """The processors that the loop runs on; none: any (processors.py)."""
    private: bool = False
    """Whether others read what the coordinator is told than who may see users' data."""
    words: str = ""
    """A file where one life leaves to the next why its watchdog ended it; "": standard error."""
    patience: float = watchdog.SECONDS
    """Seconds without a turn of the loop after which the watchdog ends this process."""
    loads_within: float = watchdog.LOADING
    """Seconds that the application's file has."""
    parent: int = 0
    """Pid of the parent, to end with it; 0: the caller sees to that."""


def run(config: WorkerProcessConfig) -> int:
    """Live one life. The exit code."""
    process_shell.begin(config.parent, job=config.settings.job, role="worker", worker=config.worker)
    if kernel is None:
        log.warning("no native kernel: this worker is slower", extra={"reason": WHY_NOT})
    else:
        kernel.huge_arenas()  # its thread goes where it likes, so before the loop is kept to some processors
    if config.processors:
        keep_to(config.processors)
    died_of = watchdog.last_words(config.words)
    if died_of:
        log.warning("the life before was ended", extra={"reason": died_of})
    try:
        with watchdog.limited(config.loads_within, config.words):
            file = as_begun(Path(config.application), config.code, config.kept, config.py_files)
            graph = load(file, config.graph, config.py_files, productions=config.productions)
        change_calls(graph, config.settings.calls)
        take_in_sequence(graph, {front.source for front in config.settings.fronts if front.in_sequence})
        code = code_found(file, config.py_files)
        process = _WorkerProcess(
            config, graph, Worker(config.worker, graph, replace(config.settings, code=code), FASTEST), died_of
        )
    except FlameStreamError as error:
        return ended_by(error)
    return process.run()


class _WorkerProcess:
    """A worker and its outside."""

    def __init__(self, config: WorkerProcessConfig, graph: Graph, worker: Worker, died_of: str) -> None:
        self._config, self._worker = config, worker
        self._reactor = EpollReactor()
        self._inbox: list[Event] = []
        self._discretion = Discretion(config.private)
        job = config.settings.job
        listener = listen(config.host)
        address = address_of(listener, config.advertised or _advertised(config.host))
        self._links = TcpLinks(self._reactor, self._inbox.append, listener, job, config.worker)
        self._store = LazyStore(lambda: store_from(config.store))
        self._consumers = {SinkName(name): self._consumer(SinkName(name)) for name in config.sinks}
        self._producers: OnDemand[FrontId, Producer] = OnDemand(self._producer)
        self._caller = self._caller_of(graph) if graph.calls else None
        self._asking = None if config.queries is None else self._door(graph, config.queries)
        self._watchdog = watchdog.Watchdog(self._reactor, config.words, config.patience)
        hello = lambda: msgspec.structs.replace(worker.hello(address), died_of=died_of)  # noqa: E731
        self._control = ControlClient(
            self._reactor, self._inbox.append, job, config.coordinator, config.token, hello
        )
        self._spans: SpanExport | None = None
        self._busy: BusyMeter | None = None
        stepped = worker if config.tracing is None else self._traced(graph, config.tracing)
        self._host = WorkerHost(stepped, self._reactor, self._inbox, self._ports(graph))

    def run(self) -> int:
        """Run until the worker exits. The exit code."""
        self._reactor.background(self._store.warm, _store_opened)
        self._look_up(
            [
                *map(sources.dialled, self._config.sources.values()),
                *map(sinks.dialled, self._config.sinks.values()),
            ]
        )
        self._host.start()
        self._watchdog.begin()
        try:
            self._reactor.run(self._host.turn)
        except FlameStreamError as error:
            self._tell_failure(error.category, str(error))
            return ended_by(error)
        except FATAL as error:
            # Another life may have the memory; whoever sees workers end again and again has to know of what.
            notes = "; ".join(getattr(error, "__notes__", ()))
            self._tell_failure("retryable", f"{process_shell.place_of(error)}{notes and f': {notes}'}")
            raise
        except Exception as error:
            self._tell_failure("bug", f"worker {self._worker.me}: {process_shell.described(error)}")
            raise
        finally:
            self._watchdog.end()
            self._close()
        assert self._host.exit is not None, "the loop ends by Exit"
        log.info(
            "worker exits", extra={"category": self._host.exit.category, "reason": self._host.exit.reason}
        )
        return BY_CATEGORY[self._host.exit.category]

    def _tell_failure(self, category: str, message: str) -> None:
        self._control.tell(
            ToldCoordinator(self._discretion.about(Failed(self._worker.fence, category, message)))
        )

    def _close(self) -> None:
        """Close everything, the control link behind what talks through it: what was told must arrive."""
        for producer in self._producers.values():
            producer.close()
        for consumer in self._consumers.values():
            consumer.close()
        if self._caller is not None:
            self._caller.close()
        if self._asking is not None:
            self._asking.close()
        if self._spans is not None:
            self._spans.close()
        self._links.close()
        self._control.close()
        self._reactor.close()

    def _look_up(self, addresses: Iterable[str]) -> None:
        """Look names up, so that a standby can dial at once when it is needed, whatever has become of the
        name service then."""
        for address in addresses:
            host, _, port = address.rpartition(":")
            if port.isdigit():
                ask(self._reactor, host, int(port), lambda _: None)

    # --- ports ----------------------------------------------------------------------------------------------

    def _ports(self, graph: Graph) -> Ports:
        config, post = self._config, self._inbox.append
        snapshots = StoreSnapshots(
            self._store,
            self._reactor,
            post,
            job=config.settings.job,
            writer=config.worker,
            nonce=lambda: secrets.token_hex(4),
        )
        outside = self._links, self._journals(), self._producers, self._consumers, snapshots, self._control
        self._worker.flow.measure(EVERY, time.monotonic_ns)
        self._busy = BusyMeter(
            self._worker.flow,
            graph,
            lambda: self._reactor.waited_us,
            self._reactor.instant(),
            private=config.private,
            spans=None if self._spans is None else self._spans.counts,
        )
        return Ports(*outside, self._problems, self._caller, self._discretion, self._busy, self._asking)

    def _door(self, graph: Graph, queries: Queries) -> QueryDoor:
        settings = self._config.settings
        file = queries.token_file
        token = None if file is None else secret_of(file, "spec.queries.tokenFile")
        gathering = Gathering(self._reactor, lambda: self._worker.stream_passes)
        return QueryDoor(
            graph, settings.job, settings.slots, queries, token, gathering, self._inbox.append,
            lambda: self._reactor.waited_us,
        )  # fmt: skip

    def _traced(self, graph: Graph, tracing: Tracing) -> Stepped:
        """The worker, with what tells spans of it."""
        from flamestream.node.tracing.export import SpanExport  # jobs without traces do without
        from flamestream.node.tracing.identities import Identities
        from flamestream.node.tracing.traced_worker import TracedWorker

        worker, job = self._worker, self._config.settings.job
        who = {"service.name": job, "service.instance.id": worker.me, "flamestream.job": job}
        self._spans = SpanExport(tracing.endpoint, who)
        return TracedWorker(
            worker, graph, Identities(job, tracing.every), self._spans.give, self._reactor.now,
            lambda: () if self._busy is None else self._busy.operations,
        )  # fmt: skip

    def _caller_of(self, graph: Graph) -> Productions:
        config, ours = self._config, productions_of(graph)
        most = MOST_IN_ZOOKEEPER if config.journal and config.journal.zookeeper else MOST_BYTES
        told = CallerConfig(
            application=config.application, graph=config.graph, py_files=config.py_files,
            job=config.settings.job, worker=config.worker, parent=0,
            calls={name: dict(changes) for name, changes in config.settings.calls.items()},
            egress=config.settings.egress, clients=config.clients, most=most,
        )  # fmt: skip
        asked = asked_of(graph)
        others = Caller(told, asked, self._reactor, self._inbox.append) if asked else None
        return Productions(ours, most, self._reactor, self._inbox.append, others)

    def _journals(self) -> Mapping[FrontId, Journal]:
        """The journal, one for all fronts, also for those whose source is gone."""
        settings, told = self._config.journal, self._inbox.append
        if settings is None:  # timed fronts, or no guarantee
            return OnDemand(lambda _: NoJournal(told))
        fronts = len(self._config.settings.fronts)
        journal = journals.build(settings, self._config.settings.job, fronts, self._reactor, told)
        return OnDemand(lambda _: journal)

    def _producer(self, front: FrontId) -> Producer:
        fronts = self._worker.settings.fronts
        name, share = sources.named(fronts, front).source, sources.share_of(fronts, front)
        spec, job = self._config.sources[name], self._config.settings.job
        traced = self._config.tracing is not None
        return sources.build(
            spec, front, self._inbox.append, self._reactor, name=name, job=job, share=share, traced=traced
        )

    def _consumer(self, sink: SinkName) -> Consumer:
        config = self._config
        return sinks.build(
            config.sinks[sink], sink, config.worker, config.settings.job, self._inbox.append, self._reactor
        )

    def _problems(self) -> Iterator[str]:
        """Lasting troubles of sources and sinks, each with whose it is."""
        for front, producer in self._producers.items():
            if isinstance(producer, Troubled) and (problem := producer.problem):
                yield f"source {sources.named(self._worker.settings.fronts, front).source}: {problem}"
        if self._caller is not None and self._caller.problem:
            yield f"calls: {self._caller.problem}"
        if self._spans is not None and self._spans.problem:
            yield f"tracing: {self._spans.problem}"
        if self._asking is not None and self._asking.problem:
            yield f"queries: {self._asking.problem}"
        for sink, consumer in self._consumers.items():
            if isinstance(consumer, Troubled) and (problem := consumer.problem):
                yield f"sink {sink}: {problem}"


def _store_opened(problem: str | Exception) -> None:
    if isinstance(problem, Exception):
        raise problem
    if problem:
        log.warning("store cannot be opened yet", extra={"reason": problem})


def _advertised(host: str) -> str:
    """The name that others dial for `host`: this machine's own if it listens everywhere, else "" (the address
    itself)."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else ""


def main(arguments: list[str]) -> int:
    """`python -m flamestream.node.worker_process CONFIG.json`"""
    sys.excepthook = process_shell.uncaught
    try:
        (file,) = arguments
        config = process_shell.read_config(WorkerProcessConfig, file)
    except FlameStreamError as error:
        return ended_by(error)
    return run(config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
