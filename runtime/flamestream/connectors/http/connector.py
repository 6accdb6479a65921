"""The kinds of a manifest that speak HTTP: a port to POST to, a server that is POSTed to, and events for
browsers (docs/reference/http.md).

Does not: import httptools or urllib3 before they are used: httptools is an extra, and urllib3 takes a while.
"""

from pathlib import Path
from typing import Final, Literal

from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.folder import FolderSink
from flamestream.connectors.kit.spec import address_of, need, secret_of
from flamestream.connectors.kit.standing import Place
from flamestream.ports import Consumer, Producer

_BATCH: Final = 100
_IDEMPOTENT: Final = (
    "a server that only drops repeated ids cannot keep out a worker that was replaced and wakes up again. "
    "Let it keep the contract "
    "`fenced` (docs/reference/http.md, examples/connectors/http_consumer.py), or choose `guarantee: at-least-once`"
)


class HttpSourceSpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A port that clients POST to; see docs/reference/http.md."""

    file_settings = ("keys", "token_file")
    own_files = {"keys": ("*.keys",)}
    listen: str
    """host:port."""
    keys: str
    """A folder of this source alone, for the idempotency keys."""
    path: str = "/"
    """The path that clients POST to."""
    payload: Literal["text", "bytes"] = "text"
    """The type of a record; text is checked to be UTF-8."""
    records: Literal["body", "lines"] = "body"
    """A record is a body, or each line of it; lines enter as one run."""
    remember: int = 100_000
    """Requests: a retry that comes later is a new one."""
    fsync: bool = True
    """Keys survive the machine, not only the processes."""
    max_body: int = 1 << 20
    """Bytes of a request."""
    max_waiting: int = 8 << 20
    """Bytes of requests that wait to enter; what comes beyond gets 503."""
    token_file: str | None = None
    """Clients send its content as their bearer token."""

    def __post_init__(self) -> None:
        address_of(self.listen)
        if not self.path.startswith("/"):
            raise ValueError("`path` begins with /")
        if min(self.remember, self.max_body, self.max_waiting - self.max_body + 1) < 1:
            raise ValueError(
                "`remember` and `max_body` have to be at least 1, and `max_waiting` at least `max_body`"
            )
        need("httptools", "http")

    def traits(self, where: str) -> kit.SourceTraits:
        return kit.SourceTraits(timed=False, run_length=0, replayable=False, bounded=False, answers=True)

    def producer(self, context: kit.SourceContext) -> Producer:
        from flamestream.connectors.http.source import HttpProducer

        token = (
            None
            if self.token_file is None
            else secret_of(self.token_file, f"{context.where}.http.token_file")
        )
        return HttpProducer(self, token, context)


class HttpSinkSpec(kit.SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server to POST to; see docs/reference/http.md."""

    file_settings = ("token_file",)
    url: str
    """http://host/path or https://host/path."""
    contract: Literal["fenced", "idempotent"]
    """The server's side of the contract: it keeps fences and last bundles, or ids of items."""
    timeout_ms: int = 10_000
    """The longest wait for an answer."""
    batch: int = _BATCH
    """Items in a request, under `contract: idempotent`."""
    token_file: str | None = None
    """Its content is sent as the bearer token."""
    traceparent: bool = False
    """Whether a request with results of a traced record has a header that says where the trace goes on; under
    `contract: idempotent` each such item says it too."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("`url` begins with http:// or https://")
        if min(self.timeout_ms, self.batch) < 1:
            raise ValueError("`timeout_ms` and `batch` have to be at least 1")
        if self.contract == "fenced" and self.batch != _BATCH:
            raise ValueError(
                "`batch` is of `contract: idempotent`: under `fenced` a request is a delivery, whole"
            )

    def traits(self, where: str) -> kit.SinkTraits:
        return (
            kit.SinkTraits(False, f"{where}: {_IDEMPOTENT}")
            if self.contract == "idempotent"
            else kit.SinkTraits(True)
        )

    def consumer(self, context: kit.SinkContext) -> Consumer:
        from flamestream.connectors.http.sink import HttpPlace, HttpWriting

        headers = {}
        if self.token_file is not None:
            headers["authorization"] = (
                f"Bearer {secret_of(self.token_file, f'{context.where}.http.token_file')}"
            )
        place = HttpPlace(
            self.url, self.contract, self.timeout_ms / 1000, self.batch, headers, self.traceparent
        )
        writing = HttpWriting(place, context.job, context.name, context.writer)
        return BlockingConsumer(writing, context.name, context.post, context.reactor)


class EventsSpec(FolderSink, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Server-sent events for browsers, over a folder as of a files sink; see docs/reference/http.md."""

    listen: str
    """host:port."""
    url: str = "/events"
    """The path that browsers ask for, on that port."""
    allow_origin: str | None = None
    """The origin, other than this port's own, whose pages may read the events: e.g. https://example.org or
    *."""
    poll_ms: int = 20
    """Milliseconds between two looks of a client's stream for what is new."""

    def __post_init__(self) -> None:
        address_of(self.listen)
        if not self.url.startswith("/") or self.poll_ms < 1:
            raise ValueError("`url` begins with /, and `poll_ms` is at least 1")
        need("httptools", "http")

    def consumer(self, context: kit.SinkContext) -> Consumer:
        from flamestream.connectors.http.events import EventsConsumer

        return EventsConsumer(self, self.delivering(context), context.reactor)

    def place(self, job: str, sink: str) -> Place:
        from flamestream.connectors.http.events_place import EventsPlace

        return EventsPlace(Path(self.path))


HTTP: Final = kit.Connector("http", HttpSourceSpec, HttpSinkSpec)
EVENTS: Final = kit.Connector("events", sink=EventsSpec)
