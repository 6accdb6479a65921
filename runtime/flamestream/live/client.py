"""A client of a job: states of keys, while the job runs or from its last epoch.

    job = flamestream.connect("job.yaml")
    job.table("accounts").get("ann")
    job.read(("accounts", "ann"), ("accounts", "bob")).states      # both at one cut

Keeps: what this client has seen once it sees again: an answer that is not strict has at least all that an earlier one
of the same client had. Does not: know which worker has a key (any of them answers).
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flamestream.live.kept_changes import Change, watched
from flamestream.live.known_job import KnownJob
from flamestream.live.latency_picture import AROUND
from flamestream.live.notebook import Shown, page
from flamestream.live.page_job import API, PageJob
from flamestream.live.port import Answer, At, HttpPort, Key, Page, Port, Wanted
from flamestream.live.trust import authority
from flamestream.live.watch import EVERY_ROW
from flamestream.model.errors import ManifestError
from flamestream.model.time import START, Time
from flamestream.node.queries.columns import table_of
from flamestream.node.queries.committed import NOTHING
from flamestream.node.run_folder import find

if TYPE_CHECKING:  # as in columns.py
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa

    from flamestream.live.audited import Audited

PATIENCE: Final = 10.0
"""Seconds that a call may take, unless a client is told otherwise."""


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
        answer = self._port.read(list(keys), at, self._needed(at, at_least))
        self._seen = max(self._seen, answer.time)
        return answer

    def scan(self, wanted: Wanted, at: At | None = None, at_least: int = 0) -> Page:
        """A page of keys with their states: `Table.scan`."""
        at = at or self._port.usual
        page = self._port.scan(wanted, at, self._needed(at, at_least))
        self._seen = max(self._seen, page.time)
        return page

    def watch(self, name: str, key: Hashable, after: str) -> Iterator[Change]:
        """The changes of a table: `Table.watch`."""
        if key is EVERY_ROW or (isinstance(self._port, KnownJob) and not self._port.keeps_changes(name)):
            return self._known("who watches all rows").watch(name).changes(key, after)
        how: At = "committed" if self._port.usual == "committed" else "stale"
        return watched(
            lambda keys, least: self.read(*keys, at=how, at_least=least),
            self._port.wait,
            name,
            key,
            after,
        )

    def status(self) -> Shown:
        """The job as its coordinator has written it last: a table in a notebook, `.status` in a program. Raises
        ManifestError if it has not run, or is known by its port's URL alone."""
        return self._watched("who asks for the status").status()

    def latency(self, seconds: float = AROUND) -> "pd.DataFrame":
        """Latencies and other figures by the second around the last recovery, a row each: from so many seconds before
        its cause to as many behind its end; without a recovery, the newest of as long. `at` is the end of the second in
        microseconds since 1970, `recovering` whether the recovery was under way in it; the other columns are those of
        the page's samples. A job has its last hour. Raises as `status`, and UserError without pandas."""
        return self.status().latency(seconds)

    def audit(self) -> "Audited":
        """Everything that it has delivered, beside what the reference interpreter makes of the same input: minutes, for
        a long input. Raises ManifestError if it is known by its URL alone."""
        return self._known("an audit").audit()

    def newest(self, sink: str, last: int = 20) -> "pd.DataFrame":
        """The last items of a sink in the total order, a row each. It reads the sink from its beginning. Raises
        ManifestError if there is no such sink, or the job is known by its URL alone, and UserError without pandas."""
        return self._known("who reads a sink").newest(sink, last)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        shows = isinstance(self._port, KnownJob | PageJob)
        return self.status()._repr_html_() if shows else page("a job", [])

    def _watched(self, who: str) -> KnownJob | PageJob:
        return self._port if isinstance(self._port, PageJob) else self._known(who)

    def _known(self, who: str) -> KnownJob:
        if not isinstance(self._port, KnownJob):
            raise ManifestError(f"{who} has to know where the job's sinks are: connect by the manifest")
        return self._port

    def _needed(self, at: At, at_least: int) -> Time:
        return max(Time(at_least), self._seen if at == "stale" else START)


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

    def scan(
        self, *, prefix: str | None = None, limit: int = 1_000, cursor: str = "", at: At | None = None,
        at_least: int = 0,
    ) -> Page:  # fmt: skip
        """A page of its keys with their states, all as of one time: those behind `cursor`, an earlier page's, and no
        more than `limit`. `prefix`: those keys that are texts and begin so. A later page is of a later time. Errors as
        `Job.read`."""
        return self.job.scan(Wanted(self.name, prefix, limit, cursor), at, at_least)

    def rows(self, *, prefix: str | None = None, at: At | None = None) -> Iterator[tuple[Any, Any]]:
        """All keys with their states, page by page: whatever is there all the time is given once. Errors as
        `Job.read`."""
        cursor, more = "", True
        while more:
            page = self.scan(prefix=prefix, cursor=cursor, at=at)
            yield from page.rows
            cursor, more = page.cursor, bool(page.cursor)

    def to_arrow(self, *, prefix: str | None = None, at: At | None = None) -> "pa.Table":
        """The same as a table of Arrow, with the columns of `Page.to_arrow`; types are those of all pages together.
        Errors as `rows` and `Page.to_arrow`."""
        rows = list(self.rows(prefix=prefix, at=at))
        return table_of({"key": [key for key, _ in rows], "state": [state for _, state in rows]}, {})

    def watch(self, key: Hashable = EVERY_ROW, *, after: str = "") -> Iterator[Change]:
        """The changes of the row of a key as transactions commit them, each once, without an end; of a job without a
        port as its epochs do. `after`: the id of a change, behind which it goes on; left out: from the oldest one on
        that is kept.

        The graph says that they are kept: `table.keep_changes()`. Without a key they are those of all rows, which come
        over a sink of events that has the table's changes, from the first one on, as JSON has them. Raises
        ManifestError where the job has neither, or is known by its URL alone and no key is said; UserError for
        changes that are not kept any more; Retryable if nobody answers.
        """
        return self.job.watch(self.name, key, after)


def connect(
    job: str | Path,
    *,
    token: str | None = None,
    run_folder: Path | None = None,
    timeout: float = PATIENCE,
    ca_file: str | Path | None = None,
) -> Job:
    """A client of a job: by its manifest, its run folder, or its name if it was run from this folder; or by the URL of
    its port (http://HOST:PORT/v1/jobs/NAME), or, for its status and its last hour, of a page that shows it
    (http://HOST:PORT/api/v1/jobs/NAME).

    With all but a URL, states are of the job's own classes; by a URL they are what JSON has for them. `token`: the
    port's or the page's bearer token; left out, the manifest says where the port's is. `timeout`: seconds that one call
    may take. `ca_file`: the authorities (PEM) of an https:// URL's certificate; left out, those of this machine. With
    the manifest it has to be the certificate that is named there. Raises ManifestError for what is no manifest,
    UserError for a file without certificates, and what the application raises.
    """
    if str(job).startswith(("http://", "https://")):
        trust = None if ca_file is None else authority(Path(ca_file))
        if API in str(job):
            return Job(PageJob(str(job), token, timeout, trust=trust))
        return Job(HttpPort(str(job), token, timeout, trust=trust))
    if ca_file is not None:
        raise ManifestError(
            "ca_file is for a URL: with a manifest, spec.queries.tls.certFile is what is trusted"
        )
    manifest, folder = find(Path(job), run_folder)
    return Job(KnownJob(manifest, folder, token, timeout))
