"""A job as a page shows it, of this machine or of a cluster: by the URL of the page's API (docs/reference/page.md).

    fs.connect("http://127.0.0.1:7878/api/v1/jobs/shop.sales", token=TOKEN)

Keeps: a call ends within its time. Does not: answer with states: those have the job's own port.
"""

from http import HTTPStatus
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from flamestream.job.status import JobStatus
from flamestream.live.notebook import Shown
from flamestream.live.port import Answer, At, Key, Page, Wanted, connection_to, exchanged, refusal
from flamestream.live.trust import Trust
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.errors import ManifestError, Retryable, UserError
from flamestream.model.time import Time
from flamestream.node.samples import Sample

T = TypeVar("T")
API: Final = "/api/v1/jobs/"
"""The path of a URL that is a page's has it."""


class _Described(msgspec.Struct):
    state: str
    status: JobStatus | None


class _Figures(msgspec.Struct):
    columns: list[str]
    samples: list[Sample]


class PageJob:
    """`port.Port`, as far as a page answers."""

    usual: At = "stale"

    def __init__(self, url: str, token: str | None, timeout: float, *, trust: Trust | None = None) -> None:
        self._url, self._path = url, urlsplit(url).path.rstrip("/")
        self._connection = connection_to(url, timeout, trust)
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}

    def status(self) -> Shown:
        """As `Job.status`, with the last hour of who serves the page. Raises UserError if it lets nobody in with this
        token, and Retryable if nobody answers."""
        described = self._asked("", _Described)
        if described.status is None:
            raise Retryable(f"{self._url}: its coordinator has not said anything: {described.state}")
        figures = self._asked("/figures", _Figures)
        if tuple(figures.columns) != Sample.__struct_fields__:
            raise UserError(f"{self._url} is a page of another release: its figures are {figures.columns}")
        return Shown(described.status, figures.samples)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def read(self, keys: list[Key], at: At, at_least: Time) -> Answer:
        """Refused: a page has no states."""
        self._refuse()

    def wait(self, key: Key, known: Any, at_least: Time) -> None:
        """Refused: a page has no states."""
        self._refuse()

    def scan(self, wanted: Wanted, at: At, at_least: Time) -> Page:
        """Refused: a page has no states."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ManifestError(
            f"{self._url} is a page, which has no states: connect by the manifest, or by a port's URL"
        )

    def _asked(self, what: str, kind: type[T]) -> T:
        path = self._path + what
        status, data = exchanged(self._connection, self._url, "GET", path, headers=self._headers)
        if status == 0:
            raise Retryable(f"{self._url} gives no answer: {data.decode()}")
        if status != HTTPStatus.OK:
            raise refusal(self._url, status, data)
        try:
            return from_json(data, kind)
        except DecodeError as error:
            raise UserError(
                f"{self._url} is no page of this release: its answer is not understood ({error})"
            ) from error
