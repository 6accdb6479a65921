"""The port of a job that runs, as a client sees it (node/queries/door.py is the other side).

Whoever has the job's classes sends and gets what is encoded, so keys and states are of them; others send and get JSON.

Keeps: a call ends within its time. Does not: know a manifest.
"""

import http.client
import ssl
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from flamestream.connectors.kit.spec import address_of
from flamestream.live.trust import Trust, authority
from flamestream.model.decoding import DecodeError, from_json, json_decoder, msgpack_decoder
from flamestream.model.errors import FlameStreamError, ManifestError, Retryable, UserError
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.time import END, Time, timestamp_of
from flamestream.node.queries.columns import table_of
from flamestream.node.queries.committed import NOTHING
from flamestream.node.queries.page_text import page_text, text_of
from flamestream.node.queries.question import ENCODED
from flamestream.node.queries.rows import cursor_of

if TYPE_CHECKING:  # it takes a while, and most never ask for it
    import pyarrow as pa

T = TypeVar("T")
At = Literal["strict", "stale", "committed"]
Key = tuple[str, Hashable]
"""The name of a table, or of an operation's state, and a key."""
EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
PAUSE: Final = 0.05
"""Seconds until a client asks again that was told to."""
_AGAIN: Final = (0, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class Answer:
    """The states of some keys, all as of one time."""

    time: Time
    """All that entered the job before it is in the answer, and nothing else."""
    states: tuple[Any, ...]
    """In the order of the keys; `NOTHING` for one that has no state."""
    at: At

    @property
    def moment(self) -> datetime | None:
        """The moment before which all is in the answer that entered the job, by the clock of whoever took it in; None:
        its input has ended, and all of it is."""
        return moment_of(self.time)


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the keys of a name with their states, all as of one time."""

    time: Time
    """As of an `Answer`."""
    rows: tuple[tuple[Any, Any], ...]
    """Keys with their states, in an order that is the same for all pages."""
    cursor: str
    """The place where the next page goes on; "": there are no more."""
    at: At

    @property
    def moment(self) -> datetime | None:
        """As of an `Answer`."""
        return moment_of(self.time)

    def to_arrow(self) -> "pa.Table":
        """Columns `key` and `state`; `time` and `cursor` are in the metadata of the schema. A class is a struct of its
        fields. Raises UserError for keys or states that have no one type of Arrow."""
        keys, states = ([row[column] for row in self.rows] for column in (0, 1))
        return table_of({"key": keys, "state": states}, {"time": str(self.time), "cursor": self.cursor})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The keys of a page that is asked for."""

    name: str
    prefix: str | None
    limit: int
    cursor: str


def moment_of(time: Time) -> datetime | None:
    """The moment of a time, in UTC; None: nothing is above it."""
    return None if time >= END else datetime.fromtimestamp(timestamp_of(time) / 1e6, UTC)


def written(answer: Answer) -> bytes:
    """An answer as the port writes it, for programs without the job's classes."""
    rows = [{} if state is NOTHING else {"state": state} for state in answer.states]
    return text_of({"time": str(answer.time), "rows": rows})


def written_page(page: Page) -> bytes:
    """A page as the port writes it, for programs without the job's classes."""
    return page_text(page.time, page.rows, page.cursor)


def page_in(data: bytes, at: At) -> Page:
    """The page that was written, with keys and states as JSON has them. Raises DecodeError."""
    told = _told_page(data)
    rows = tuple((row.key, row.state) for row in told.rows)
    return Page(Time(int(told.time)), rows, told.cursor, at)


def answer_in(data: bytes, at: At) -> Answer:
    """The answer that was written, with states as JSON has them. Raises DecodeError."""
    told = _told(data)
    return Answer(Time(int(told.time)), tuple(row.get("state", NOTHING) for row in told.rows), at)


def dialled(listen: str) -> tuple[str, int]:
    """Where a port of this machine is reached that listens so."""
    host, port = address_of(listen)
    return EVERYWHERE.get(host, host), port


def no_port(job: str, listen: str, instead: str) -> ManifestError:
    """The error of a job that has no port. `listen`: where one may be; `instead`: what there is without it."""
    return ManifestError(
        f'job {job!r} has no port for queries: add queries: {{listen: "{listen}"}} to its spec, or {instead}'
    )


class Port(Protocol):
    """A job that answers."""

    @property
    def usual(self) -> At:
        """How it is asked if nobody says how."""
        ...

    def read(self, keys: list[Key], at: At, at_least: Time) -> Answer: ...
    def wait(self, key: Key, known: Any, at_least: Time) -> None: ...
    def scan(self, wanted: Wanted, at: At, at_least: Time) -> Page: ...
    def close(self) -> None: ...


class HttpPort:
    """The port at a URL."""

    usual: At = "strict"

    def __init__(
        self, url: str, token: str | None, timeout: float, *, typed: bool = False, trust: Trust | None = None
    ) -> None:
        """`typed`: this process knows the job's classes. `trust`: whom it takes for the job at a URL of https;
        left out, whoever has a certificate for its host by an authority of this machine."""
        self._connection = connection_to(url, timeout, trust)
        self._url, self._path = url, f"{urlsplit(url).path.rstrip('/')}/query"
        self._timeout, self._typed = timeout, typed
        self._headers = {"content-type": ENCODED, "accept": ENCODED} if typed else {}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def wait(self, key: Key, known: Any, at_least: Time) -> None:
        """Back as soon as the state of a key is another than `known`, which may be NOTHING, or in some seconds. Raises
        as `Job.read`."""
        state = None if known is NOTHING else encode(known) if self._typed else known
        self._asked({"read": self._written([key]), "unlike": [state]}, "stale", at_least)

    def read(self, keys: list[Key], at: At, at_least: Time) -> Answer:
        """As `Job.read`."""
        data = self._asked({"read": self._written(keys)}, at, at_least)
        if self._typed:
            number, states, _, _ = self._understood(_encoded, data)
            found = tuple(NOTHING if state is None else decode(state) for state in states)
            return Answer(Time(number), found, at)
        return self._understood(partial(answer_in, at=at), data)

    def scan(self, wanted: Wanted, at: At, at_least: Time) -> Page:
        """As `Table.scan`."""
        asked = {
            "scan": wanted.name,
            "prefix": wanted.prefix,
            "limit": wanted.limit,
            "cursor": wanted.cursor,
        }
        data = self._asked(asked, at, at_least)
        if self._typed:
            number, states, keys, upto = self._understood(_encoded, data)
            encoded = zip(keys, states, strict=True)
            rows = tuple((decode(key), decode(state)) for key, state in encoded if state is not None)
            return Page(Time(number), rows, cursor_of(upto), at)
        return self._understood(partial(page_in, at=at), data)

    def _written(self, keys: list[Key]) -> list[Any]:
        return [(name, encode(key)) for name, key in keys] if self._typed else list(keys)

    def _asked(self, asked: dict[str, Any], at: At, at_least: Time) -> bytes:
        """The body of the answer. Raises UserError if the job refuses, Retryable if it does not answer in time."""
        if at == "committed":
            raise UserError(
                f'{self._url} cannot answer at="committed", which is read from the store: connect by the manifest'
            )
        asked |= {"at": at, "at_least": str(at_least)}
        body = msgspec.msgpack.encode(asked) if self._typed else text_of(asked)
        deadline = time.monotonic() + self._timeout
        while True:
            status, data = exchanged(
                self._connection, self._url, "POST", self._path, headers=self._headers, body=body
            )
            if status == HTTPStatus.OK:
                return data
            if status not in _AGAIN:
                raise refusal(self._url, status, data)
            if time.monotonic() + PAUSE > deadline:
                raise Retryable(f"{self._url} gives no answer within {self._timeout:g} s: {_error_in(data)}")
            time.sleep(PAUSE)

    def _understood(self, decoder: Callable[[bytes], T], data: bytes) -> T:
        try:
            return decoder(data)
        except DecodeError as error:
            raise UserError(
                f"{self._url} is no port of a job: its answer is not understood ({error})"
            ) from error


def connection_to(url: str, timeout: float, trust: Trust | None = None) -> http.client.HTTPConnection:
    """A connection to the server of a URL, which is not made yet. `trust`: as of an `HttpPort`."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return _Sealed(parts.netloc, timeout, trust or authority())
    return http.client.HTTPConnection(parts.netloc, timeout=timeout)


def exchanged(
    connection: http.client.HTTPConnection, url: str, method: str, path: str, *, headers: dict[str, str],
    body: bytes | None = None,
) -> tuple[int, bytes]:  # fmt: skip
    """The status and the body of an answer; 0 and why, if there is none. Raises UserError for a server that is not
    trusted."""
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except ssl.SSLCertVerificationError as error:
        connection.close()
        why = f"it is not trusted: {error.verify_message}"
        raise UserError(f"{url} shows another certificate than it should: {why}") from error
    except (OSError, http.client.HTTPException) as error:
        # a worker that ends closes its connections: the next one is another worker's
        connection.close()
        return 0, str(error or type(error).__name__).encode()


class _Sealed(http.client.HTTPConnection):
    """A connection over TLS to who has proved what is trusted."""

    default_port = 443

    def __init__(self, place: str, timeout: float, trust: Trust) -> None:
        super().__init__(place, timeout=timeout)
        self._trust = trust

    def connect(self) -> None:
        """As of the plain connection, and behind it the handshake. Raises SSLError, which is an OSError."""
        super().connect()
        self.sock = self._trust.context.wrap_socket(self.sock, server_hostname=self._trust.name or self.host)


class _Told(msgspec.Struct):
    time: Annotated[str, Meta(pattern="^[0-9]+$")]
    rows: list[dict[str, Any]]


class _Row(msgspec.Struct):
    key: Any
    state: Any


class _ToldPage(msgspec.Struct):
    time: Annotated[str, Meta(pattern="^[0-9]+$")]
    rows: list[_Row]
    cursor: str = ""


_encoded: Final = msgpack_decoder(tuple[int, list[bytes | None], list[bytes], bytes])
_told: Final = json_decoder(_Told)
_told_page: Final = json_decoder(_ToldPage)


def refusal(url: str, status: int, data: bytes) -> FlameStreamError:
    """The error of an answer: what is not there is refused as by who knows the job."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind: type[FlameStreamError] = Retryable
    else:
        kind = ManifestError if status == HTTPStatus.NOT_FOUND else UserError
    return kind(f"{url} answers {status}: {_error_in(data)}")


def _error_in(data: bytes) -> str:
    try:
        found = from_json(data)
    except DecodeError:
        return data.decode(errors="replace")
    said = found.get("error", found) if isinstance(found, dict) else found
    return str(said.get("message", said) if isinstance(said, dict) else said)
