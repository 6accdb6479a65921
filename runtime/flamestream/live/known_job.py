"""A job whose manifest and application are here, so that keys and states are of its own classes, and its last epoch can
be read when it is down.

Does not: speak with a worker (port.py).
"""

import time
from typing import TYPE_CHECKING, Any

from flamestream.audit.committed import LastCommit, cluster_state_of, committed_here, of_newest
from flamestream.connectors.kit.spec import secret_of
from flamestream.job.manifest import Job as Manifest
from flamestream.job.validation import loaded
from flamestream.live.committed import committed_answer, committed_page, recent
from flamestream.live.notebook import Shown, newest
from flamestream.live.port import PAUSE, Answer, At, HttpPort, Key, Page, Wanted, dialled, no_port
from flamestream.live.trust import pinned
from flamestream.live.watch import Watch
from flamestream.model.errors import ManifestError
from flamestream.model.tables.kept_changes import changes_of
from flamestream.model.time import Time
from flamestream.node.queries.rows import Kept
from flamestream.node.run_folder import RunFolder
from flamestream.node.samples_file import SamplesTail

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from flamestream.live.audited import Audited


class KnownJob:
    """`port.Port`."""

    def __init__(self, manifest: Manifest, folder: RunFolder, token: str | None, timeout: float) -> None:
        """Raises ManifestError, and what the application raises."""
        self._manifest, self._folder, self._timeout = manifest, folder, timeout
        _, self._graph = loaded(manifest)
        self._kept = Kept(self._graph)
        self._port = _port_of(manifest, token, timeout)
        self._looked = 0
        """The epoch that had been told when the last commit was read."""

    @property
    def usual(self) -> At:
        """How it is asked if nobody says how."""
        return "committed" if self._port is None else "strict"

    def read(self, keys: list[Key], at: At, at_least: Time) -> Answer:
        """As `Job.read`."""
        rows = [self._kept.row(name, key) for name, key in keys]  # an error names what there is
        if at != "committed":
            return self._asked.read(keys, at, at_least)
        return of_newest(
            lambda: self._committed(at_least),
            lambda last: committed_answer(self._graph, last, self._manifest.store, rows),
        )

    def wait(self, key: Key, known: Any, at_least: Time) -> None:
        """As `HttpPort.wait`; without a port, until there is another epoch."""
        if self._port is not None:
            self._port.wait(key, known, at_least)
            return
        while self._epoch() == self._looked:
            time.sleep(PAUSE)

    def scan(self, wanted: Wanted, at: At, at_least: Time) -> Page:
        """As `Table.scan`."""
        self._kept.matching(wanted.name, wanted.prefix)  # an error names what there is
        if at != "committed":
            return self._asked.scan(wanted, at, at_least)
        return of_newest(
            lambda: self._committed(at_least),
            lambda last: committed_page(self._graph, last, self._manifest.store, wanted),
        )

    def keeps_changes(self, table: str) -> bool:
        """Whether its graph keeps the last changes of a table's rows."""
        return changes_of(table) in self._graph.kept

    def watch(self, table: str) -> Watch:
        """The changes of a table, by its sink of events. Raises ManifestError."""
        self._kept.row(table, None)
        return Watch(self._manifest, self._graph, table, self._timeout)

    def status(self) -> Shown:
        """As `Job.status`."""
        told = self._folder.status()
        if told is None:
            raise ManifestError(
                f"job {self._manifest.name!r} has not run on this machine yet: {self._folder.path}"
            )
        return Shown(told, SamplesTail(self._folder.path).behind())

    def audit(self) -> "Audited":
        """As `Job.audit`."""
        from flamestream.live.audited import audit  # as much again to load as all that a query needs

        return audit(self._manifest, self._folder)

    def newest(self, sink: str, last: int) -> "pd.DataFrame":
        """As `Job.newest`."""
        return newest(self._manifest, sink, last)

    def close(self) -> None:
        """Let go of the connection."""
        if self._port is not None:
            self._port.close()

    @property
    def _asked(self) -> HttpPort:
        if self._port is None and self._manifest.spec.batches:
            raise ManifestError(
                f"job {self._manifest.name!r} runs in micro-batches, which have no worker that could be asked: "
                'ask at="committed", of its last epoch'
            )
        if self._port is None:
            raise no_port(self._manifest.name, "127.0.0.1:7070", 'ask at="committed"')
        return self._port

    def _epoch(self) -> int:
        """The last one that was told."""
        told = self._folder.status()
        return 0 if told is None else told.epoch

    def _committed(self, at_least: Time) -> LastCommit:
        manifest = self._manifest
        self._looked = self._epoch()  # before the commit is read (!): a later one ends a wait
        with cluster_state_of(self._folder) as zookeeper:
            last = committed_here(self._folder, zookeeper, manifest.name, manifest.store)
        return recent(last, at_least)


def _port_of(manifest: Manifest, token: str | None, timeout: float) -> HttpPort | None:
    queries = manifest.queries
    if queries is None:
        return None
    host, port = dialled(queries.listen)
    if token is None and queries.token_file is not None:
        token = secret_of(queries.token_file, "spec.queries.tokenFile")
    place = f"{f'[{host}]' if ':' in host else host}:{port}/v1/jobs/{manifest.identity}"
    if queries.tls is None:
        return HttpPort(f"http://{place}", token, timeout, typed=True)
    certificate = secret_of(queries.tls.cert_file or "", "spec.queries.tls.certFile")
    trust = pinned(certificate, "spec.queries.tls.certFile")
    return HttpPort(f"https://{place}", token, timeout, typed=True, trust=trust)
