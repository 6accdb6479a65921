"""`kubectl flamestream query`: a job of a cluster is asked, through `kubectl port-forward` to a worker that takes part,
with the token of its Secret; or its last epoch is read in a pod beside it.

Keeps: an answer, or why there is none, within a time. Does not: know the job's classes: states are what JSON has.
"""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from flamestream.cli.kubectl.beside import beside, exit_code, last_document
from flamestream.cli.kubectl.cluster import ANSWERS, JOB, Cluster, Object
from flamestream.cli.kubectl.options import Context, JobName, Namespace
from flamestream.cli.output import Json
from flamestream.cli.query import AtLeast, AtOption, Cursor, Limit, Prefix, Rows, page_of, show, show_page
from flamestream.connectors.kit.spec import address_of, secret_of
from flamestream.job import object_names
from flamestream.job.exit_codes import ExitCode
from flamestream.live.port import Answer, At, HttpPort, Page, Wanted, answer_in, no_port, page_in
from flamestream.live.trust import Trust, authority, pinned
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, FlameStreamError, ManifestError, Retryable, UserError
from flamestream.model.time import Time
from flamestream.node.queries.rows import split

T = TypeVar("T")
PATIENCE: Final = 20.0
"""Seconds within which a job answers, or the command ends: enough for a recovery."""
ONE_WORKER: Final = 3.0
"""Seconds that one worker is asked; then another is, for this one may be gone."""
PAUSE: Final = 0.2
_ERRORS: Final[dict[int, type[FlameStreamError]]] = {
    ExitCode.USAGE: ManifestError, ExitCode.UNAVAILABLE: Retryable, ExitCode.CORRUPT: Corrupt,
}  # fmt: skip
"""Errors by the exit code of a pod beside the job; any other is a UserError's."""

TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with the token of a job that has one of its own (spec.queries.tokenFile).",
        show_default=False,
    ),
]


CaFile = Annotated[
    Path | None,
    typer.Option(
        help="The authorities (PEM) of the port's certificate, which has to be for JOB-queries.NAMESPACE.svc. "
        "Default: the certificate of the job's Secret (spec.queries.tls.secret).",
        show_default=False,
    ),
]


def command(  # noqa: PLR0913, PLR0917  # a command's parameters are its options
    job: JobName,
    rows: Rows,
    at: AtOption = None,
    at_least: AtLeast = 0,
    prefix: Prefix = None,
    limit: Limit = None,
    cursor: Cursor = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    namespace: Namespace = "",
    context: Context = "",
    json: Json = False,
) -> None:
    """Show rows of tables, and states of keys by the names that `plan` shows, all as of one time, as JSON has them.

    A job that runs is asked at its port (spec.queries); of others, the store of its epochs, in a pod beside the job.
    Exit code 2 for a name that the graph does not have, 5 for a job that does not answer.

    Example: [bold]kubectl flamestream query bank "accounts['ann']" "accounts['bob']"[/bold]
    """
    wanted = page_of(rows, prefix, limit, cursor)
    asked = [] if wanted is not None else [split(row) for row in rows]
    there = JobOfCluster(Cluster(namespace, context), job, token_file, ca_file)
    how, least = there.usual if at is None else at.value, Time(at_least)
    if how == "committed":
        for option, file in (("--token-file", token_file), ("--ca-file", ca_file)):
            if file is not None:
                raise ManifestError(
                    f"{option} is for a job's port: its epochs are read without it, leave it out"
                )
        if wanted is not None:
            show_page(wanted.name, there.committed_page(wanted, least), json)
        else:
            show(rows, there.committed(rows, least), json)
    elif wanted is not None:
        show_page(wanted.name, there.asked(lambda port: port.scan(wanted, how, least)), json)
    else:
        show(rows, there.asked(lambda port: port.read(asked, how, least)), json)


class Asking:
    """The workers of a job: one is asked as long as it answers, then the next."""

    def __init__(
        self, job: str, pods: Callable[[], list[str]], port: Callable[[str], AbstractContextManager[HttpPort]]
    ) -> None:
        """`pods`: names of those whose worker takes part; `port`: that of one of them."""
        self._job, self._pods, self._port_of = job, pods, port
        self._turn, self._open = 0, ExitStack()
        self._port: HttpPort | None = None

    def __call__(self, ask: Callable[[HttpPort], T]) -> T:
        """The answer. Raises as `Port.read`."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return ask(self._port or self._next())
            except Retryable as error:
                self.close()
                if time.monotonic() > deadline:
                    why = f"job {self._job!r} gives no answer within {PATIENCE:g} s: {error}"
                    raise Retryable(why) from error
            time.sleep(PAUSE)

    def close(self) -> None:
        """Let go of the worker that is asked."""
        self._port = None
        self._open.close()

    def _next(self) -> HttpPort:
        """The port of the next worker. Raises Retryable if there is none."""
        pods = self._pods()
        if not pods:
            raise Retryable(
                f"none of its workers takes part: `kubectl flamestream status {self._job}` says why"
            )
        pod = pods[self._turn % len(pods)]
        self._turn += 1
        self._port = self._open.enter_context(self._port_of(pod))
        return self._port


class JobOfCluster:
    """A job that is asked."""

    def __init__(
        self, cluster: Cluster, name: str, token_file: Path | None, ca_file: Path | None = None
    ) -> None:
        self._cluster, self._name = cluster, name
        self._token_file, self._ca_file = token_file, ca_file

    @cached_property
    def _job(self) -> Object:
        return self._cluster.job(self._name)

    @property
    def _queries(self) -> Object | None:
        found: Object | None = self._job["spec"].get("queries")
        return found

    @property
    def usual(self) -> At:
        """The mode in which it is asked if nobody names one."""
        return "committed" if self._queries is None else "strict"

    def asked(self, ask: Callable[[HttpPort], T]) -> T:
        """The answer of a worker's port. Raises as `Port.read`."""
        with self.asking() as asked:
            return asked(ask)

    @contextmanager
    def asking(self) -> Iterator["Asking"]:
        """Ask its workers' ports, one as long as it answers. Raises ManifestError if it has none."""
        if (queries := self._queries) is None:
            raise no_port(self._name, "0.0.0.0:7070", "ask --at committed")
        token, trust, number = self._token(queries), self._trust(queries), address_of(queries["listen"])[1]
        asking = Asking(self._name, self._pods, lambda pod: self._port(pod, number, token, trust))
        with closing(asking):
            yield asking

    @contextmanager
    def _port(self, pod: str, number: int, token: str, trust: Trust | None) -> Iterator[HttpPort]:
        with self._cluster.forwarded(pod, number) as here:
            place = f"127.0.0.1:{here}/v1/jobs/{self._identity}"
            url = f"http://{place}" if trust is None else f"https://{place}"
            with closing(HttpPort(url, token, ONE_WORKER, trust=trust)) as port:
                yield port

    def committed(self, rows: list[str], at_least: Time) -> Answer:
        """The states of rows in the last epoch, read in a pod beside the job."""
        return answer_in(self._beside(str(at_least), *rows), "committed")

    def committed_page(self, wanted: Wanted, at_least: Time) -> Page:
        """A page of a name in the last epoch, read so."""
        prefix = [] if wanted.prefix is None else [wanted.prefix]
        said = self._beside(str(at_least), "--page", wanted.name, str(wanted.limit), wanted.cursor, *prefix)
        return page_in(said, "committed")

    def _beside(self, *words: str) -> bytes:
        """The output of the tool in a pod beside the job."""
        tool = ["python3", "-m", "flamestream_operator.tools.query_main", *words]
        with beside(self._cluster, self._name, tool) as pod:
            said = last_document(self._cluster, pod)
            code = exit_code(self._cluster, pod)
        if not said:
            raise Retryable(f"the pod beside {self._name!r} ended without an answer: try again")
        if code != ExitCode.OK:
            raise _ERRORS.get(code, UserError)(str(from_json(said.encode(), dict[str, Any])["error"]))
        return said.encode()

    @property
    def _identity(self) -> str:
        """NAMESPACE.NAME, under which its port answers."""
        meta = self._job["metadata"]
        return str((self._job.get("status") or {}).get("identity") or f"{meta['namespace']}.{meta['name']}")

    def _pods(self) -> list[str]:
        """Names of the pods whose worker takes part."""
        found = self._cluster.get("pods", "-l", f"{JOB}={self._name},{ANSWERS}=true")["items"]
        return [str(pod["metadata"]["name"]) for pod in found]

    def _token(self, queries: Object) -> str:
        if self._token_file is not None:
            return secret_of(str(self._token_file), "--token-file")
        if queries.get("tokenFile"):
            raise ManifestError(
                f"job {self._name!r} has a token of its own (spec.queries.tokenFile): give it with --token-file FILE"
            )
        secret = self._cluster.get("secret", object_names.queries(self._name))
        return base64.b64decode(secret["data"]["token"]).decode()

    def _trust(self, queries: Object) -> Trust | None:
        """Whom to take for the job behind the tunnel; None: its port has no certificate."""
        service, tls = object_names.queries(self._name), queries.get("tls")
        if tls is None:
            if self._ca_file is not None:
                raise ManifestError(
                    f"job {self._name!r} has no certificate (spec.queries.tls): leave --ca-file out"
                )
            return None
        if self._ca_file is not None:
            return authority(self._ca_file, f"{service}.{self._job['metadata']['namespace']}.svc")
        if not tls.get("secret"):
            raise ManifestError(
                f"job {self._name!r} has a certificate of its own (spec.queries.tls.certFile): give its authority with "
                "--ca-file FILE"
            )
        secret = self._cluster.get("secret", tls["secret"])
        return pinned(base64.b64decode(secret["data"]["tls.crt"]).decode(), f"Secret {tls['secret']}")
