"""A client of a job: states of keys, while the job runs or from its last epoch.

    job = flamestream.connect("job.yaml")
    job.table("accounts").get("ann")
    job.read(("accounts", "ann"), ("accounts", "bob")).states      # both at one cut

Keeps: what this client has seen once it sees again: an answer that is not strict has at least all that an earlier one
of the same client had. Does not: know which worker has a key (any of them answers).
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flamestream.audit.committed import cluster_state_of, committed_here
from flamestream.connectors.kit.spec import address_of, secret_of
from flamestream.job.manifest import Job as Manifest
from flamestream.job.validation import loaded
from flamestream.live.port import Answer, At, HttpPort, Key, Port
from flamestream.model.errors import ManifestError, Retryable
from flamestream.model.time import START, Time
from flamestream.node.queries.committed import NOTHING, states_at
from flamestream.node.queries.rows import Kept, Row
from flamestream.node.run_folder import RunFolder, find
from flamestream.store.places import store_from

PATIENCE: Final = 10.0
"""Seconds that a call may take, unless a client is told otherwise."""
EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Job:
    """A job that is asked. It is for one thread."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._seen = START

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._port.close()

    def table(self, name: str) -> "Table":
        """A table of its graph, or the state of an operation with that name."""
        return Table(self, name)

    def read(self, *keys: Key, at: At | None = None, at_least: int = 0) -> Answer:
        """The states of keys, all as of one time.

        `at`: "strict" has all that anybody had seen when this was called; "stale" may be a little older, but has all
        that this client has seen, and costs less; "committed" is of the last epoch, and needs no job that runs. Left
        out: strict, or committed for a job without a port. `at_least`: the time of an answer, or of a POST that the job
        took, which has to be in this one.

        Raises UserError if the job refuses, Retryable if it does not answer in time.
        """
        at = at or self._port.usual
        answer = self._port.read(list(keys), at, max(Time(at_least), self._seen if at == "stale" else START))
        self._seen = max(self._seen, answer.time)
        return answer


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a job that is asked."""

    job: Job
    name: str

    def get(self, key: Hashable, default: Any = None, *, at: At | None = None, at_least: int = 0) -> Any:
        """The state of a key; `default` if it has none. Parameters and errors as `Job.read`."""
        (state,) = self.job.read((self.name, key), at=at, at_least=at_least).states
        return default if state is NOTHING else state

    def get_many(
        self, keys: Iterable[Hashable], *, at: At | None = None, at_least: int = 0
    ) -> dict[Hashable, Any]:
        """The states of those of the keys that have one, all as of one time. Parameters and errors as `Job.read`."""
        keys = list(keys)
        answer = self.job.read(*((self.name, key) for key in keys), at=at, at_least=at_least)
        return {key: state for key, state in zip(keys, answer.states, strict=True) if state is not NOTHING}


def connect(
    job: str | Path, *, token: str | None = None, run_folder: Path | None = None, timeout: float = PATIENCE
) -> Job:
    """A client of a job: by its manifest or run folder, or by the URL of its port (http://HOST:PORT/v1/jobs/NAME).

    With the manifest, states are of the job's own classes; by a URL they are what JSON has for them. `token`: the
    port's bearer token; left out, the manifest says where it is. `timeout`: seconds that one call may take. Raises
    ManifestError for what is no manifest, and what the application raises.
    """
    if str(job).startswith(("http://", "https://")):
        return Job(HttpPort(str(job), token, timeout))
    manifest, folder = find(Path(job), run_folder)
    return Job(KnownJob(manifest, folder, token, timeout))


class KnownJob:
    """A job whose manifest and application are here."""

    def __init__(self, manifest: Manifest, folder: RunFolder, token: str | None, timeout: float) -> None:
        self._manifest, self._folder = manifest, folder
        _, self._graph = loaded(manifest)
        self._kept = Kept(self._graph)
        self._port: HttpPort | None = None
        if (queries := manifest.queries) is not None:
            host, port = address_of(queries.listen)
            host = EVERYWHERE.get(host, host)
            if token is None and queries.token_file is not None:
                token = secret_of(queries.token_file, "spec.queries.tokenFile")
            place = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1/jobs/{manifest.identity}"
            self._port = HttpPort(place, token, timeout, typed=True)

    @property
    def usual(self) -> At:
        """How it is asked if nobody says how."""
        return "committed" if self._port is None else "strict"

    def read(self, keys: list[Key], at: At, at_least: Time) -> Answer:
        rows = [self._kept.row(name, key) for name, key in keys]  # an error names what there is
        if at == "committed":
            return self._committed(rows, at_least)
        if self._port is None:
            raise ManifestError(
                f"job {self._manifest.name!r} has no port for queries: add queries: {{listen: 127.0.0.1:7070}} to its "
                'spec, or ask at="committed"'
            )
        return self._port.read(keys, at, at_least)

    def close(self) -> None:
        if self._port is not None:
            self._port.close()

    def _committed(self, rows: list[Row], at_least: Time) -> Answer:
        manifest = self._manifest
        with cluster_state_of(self._folder) as zookeeper:
            last = committed_here(self._folder, zookeeper, manifest.name, manifest.store)
        if last.cut < at_least:
            raise Retryable(
                f"the last epoch is of {last.cut}, before {at_least}: ask again behind the next one"
            )
        if last.index is None:
            return Answer(last.cut, (NOTHING,) * len(rows), "committed")
        states = states_at(self._graph, last.index, store_from(manifest.store), rows)
        return Answer(last.cut, tuple(states), "committed")
