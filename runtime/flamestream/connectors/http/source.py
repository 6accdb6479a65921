"""A source that clients POST to: the answer comes when the record is in the journal, and a retry is not
counted twice.

    POST / HTTP/1.1                 200 {"first": 1200, "count": 2, "repeated": false, "time": "73..."}: durable, so it
    Idempotency-Key: order-17           will be processed exactly once; a query at_least that time has it
                                    422 this key came with another body
                                    503 Retry-After: 1: no room, or no front here now: send it again

A request is one run: its records enter together or not at all. It waits while the front has no credit; when
too much waits, new ones get 503. A key that is known gets the answer of the first time, at once if that is
durable, else with it (http/keys.py).

The front's worker listens. When the front moves, its next worker takes the port over as soon as it is free;
clients see a refused connection or a 503 and try again with the same key.

Keeps: offsets without gap; a key's records enter once, for the last `remember` keys. Does not: TLS (put a
proxy before it); replay (payloads are in the journal).
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from flamestream.connectors.http.connector import HttpSourceSpec
from flamestream.connectors.http.keys import KeyLog, Note
from flamestream.connectors.kit.connector import SourceContext
from flamestream.connectors.kit.contexts import MOST_CONTEXT, TRACEPARENT
from flamestream.connectors.kit.credit import THE_PARTITION, CreditProducer
from flamestream.connectors.kit.spec import address_of
from flamestream.core.protocol.actions import Follow, ReadRun
from flamestream.core.protocol.events import SourceFailed
from flamestream.loop.background import Queue, Threads
from flamestream.model.errors import Bug, FlameStreamError
from flamestream.model.ids import Fence, Offset
from flamestream.model.time import START, Time
from flamestream.net.http_server import Exchange, HttpServer, Request

MOST_RECORDS: Final = 4096
"""The most records of a request: as many as one run may have."""
MOST_WAITING: Final = 1024
MOST_KEY: Final = 256
ALL: Final = -1
"""The place of a context that all records of a run came with."""
RETRY: Final = [("retry-after", "1")]


@dataclass(slots=True)
class _Posted:
    """A request on its way, or remembered."""

    key: str
    digest: str
    records: Sequence[object]
    size: int
    first: int = -1
    count: int = 0
    durable: bool = False
    trace: str = ""
    """The context (`traceparent`) that it came with."""
    time: Time = START
    """The time at which an answer to a query has it; START: nobody knows any more."""
    waiting: list[tuple[Exchange, bool]] = field(default_factory=list)
    """The clients to answer, and whether they were the first to ask."""


class HttpProducer(CreditProducer):
    """`ports.Producer`."""

    def __init__(self, spec: HttpSourceSpec, token: str | None, context: SourceContext) -> None:
        super().__init__(context.front, context.post, context.reactor)
        reactor, self._source = context.reactor, context.name
        self._path, self._as_bytes, self._by_line = (
            spec.path,
            spec.payload == "bytes",
            spec.records == "lines",
        )
        self._traced = context.traced
        self._remember, self._most_waiting_bytes = spec.remember, spec.max_waiting
        self._server = HttpServer(
            reactor, address_of(spec.listen), self._asked, body=spec.max_body, token=token
        )
        self._thread = Threads(1, reactor.soon)
        self._calls = Queue(self._thread, reactor)
        self._keys = KeyLog(Path(spec.keys), spec.remember, spec.fsync)
        self._known: dict[str, _Posted] = {}
        """Requests by their key, in the order of their offsets."""
        self._arrived: deque[_Posted] = deque()
        """Requests that are not noted yet."""
        self._noting: list[_Posted] = []
        """Requests that are being noted."""
        self._noted: deque[_Posted] = deque()
        """Requests that are noted and not posted yet."""
        self._given: deque[_Posted] = deque()
        """Requests that were posted and are not durable yet."""
        self._waiting_bytes = 0
        self._next = 0
        """The offset of the next request."""

    @property
    def problem(self) -> str:
        """Why nothing can come."""
        return self._server.problem or self._calls.problem

    def read(self, action: ReadRun) -> None:
        raise Bug(
            f"source {self._source} cannot be read again; the journal has the payloads of {action.entry}"
        )

    def follow(self, action: Follow) -> None:
        if not self._adopt(action.fence):
            return
        self._next = action.offsets.get(THE_PARTITION, Offset(0))
        fence, following = action.fence, self._next
        # Behind a note of the older fence that may be under way: the queue lets one call at a time into the
        # folder.
        self._calls.run(lambda: self._keys.open(fence, following), lambda notes: self._opened(fence, notes))
        # Already now: until the keys are known clients hear 503, and not nothing.
        self._server.open()

    def durable(self, time: Time, partition: str, upto: int) -> None:
        while self._given and self._given[0].first + self._given[0].count <= upto:
            posted = self._given.popleft()
            # Its key is remembered for long, so its records are let go.
            posted.durable, posted.records, posted.time = True, (), Time(time + 1)
            self._tell(posted)

    def close(self) -> None:
        self._let_go("this worker ends, or the source moves to another one")
        self._server.close()
        self._calls.close()
        self._thread.close(self._keys.close)

    def _forget(self) -> None:
        self._let_go("the job recovers")

    def _let_go(self, why: str) -> None:
        """Whoever waits must ask again: whether their records entered is decided by the journal."""
        self._following = False
        for posted in [*self._arrived, *self._noting, *self._noted, *self._given]:
            for exchange, _ in posted.waiting:
                _again(exchange, why)
        for queue in (self._arrived, self._noted, self._given):
            queue.clear()
        self._noting = []
        self._known.clear()
        self._waiting_bytes = 0

    def _opened(self, fence: Fence, notes: Sequence[Note] | Exception) -> None:
        if fence != self._fence:
            return
        if isinstance(notes, FlameStreamError):
            self._post(SourceFailed(fence, self._front, notes.category, f"source {self._source}: {notes}"))
        elif isinstance(notes, Exception):
            raise notes
        else:
            self._known = {
                note.key: _Posted(note.key, note.digest, (), 0, note.first, note.count, durable=True)
                for note in notes
            }
            # Only now are requests taken (!): before, a retry would not be known, and would count twice.
            self._following = True

    # --- requests -------------------------------------------------------------------------------------------

    def _asked(self, request: Request, exchange: Exchange) -> None:
        if request.path != self._path:
            exchange.answer(404, {"error": f"there is only {self._path}"})
        elif request.method != "POST":
            exchange.answer(405, {"error": "only POST"}, [("allow", "POST")])
        elif not 0 < len(key := request.headers.get("idempotency-key", "")) <= MOST_KEY:
            exchange.answer(
                400,
                {
                    "error": f"send a header Idempotency-Key of 1 to {MOST_KEY} bytes: the same for a retry, "
                    "another for each request"
                },
            )
        elif not self._following:
            _again(exchange, "the source is not being read now")
        else:
            context = request.headers.get(TRACEPARENT, "") if self._traced else ""
            self._take(key, request.body, exchange, context)

    def _take(self, key: str, body: bytes, exchange: Exchange, context: str) -> None:
        digest = hashlib.blake2b(body, digest_size=8).hexdigest()
        known = self._known.get(key)
        if known is None:
            self._enter(key, digest, body, exchange, context)
        elif known.digest != digest:
            exchange.answer(422, {"error": f"the key {key!r} has come with another body before"})
        else:
            known.waiting.append((exchange, False))
            if known.durable:
                self._tell(known)

    def _enter(self, key: str, digest: str, body: bytes, exchange: Exchange, context: str) -> None:
        try:
            records = self._records_of(body)
        except UnicodeDecodeError as error:
            exchange.answer(400, {"error": f"byte {error.start} of the body is not UTF-8"})
            return
        if not 0 < len(records) <= MOST_RECORDS:
            exchange.answer(
                400 if not records else 413,
                {"error": f"a request has 1 to {MOST_RECORDS} records, not {len(records)}"},
            )
            return
        if (
            len(self._arrived) + len(self._noting) + len(self._noted) >= MOST_WAITING
            or self._waiting_bytes + len(body) > self._most_waiting_bytes
        ):
            _again(exchange, "the job is behind: too much waits to enter")
            return
        posted = _Posted(
            key, digest, records, len(body), self._next, len(records), waiting=[(exchange, True)],
            trace=context[:MOST_CONTEXT],
        )  # fmt: skip
        self._next += len(records)
        self._waiting_bytes += len(body)
        self._known[key] = posted
        # Only durable ones are forgotten: of the others it is not decided whether they entered.
        while len(self._known) > self._remember and next(iter(self._known.values())).durable:
            del self._known[next(iter(self._known))]
        self._arrived.append(posted)
        self._note()

    def _records_of(self, body: bytes) -> list[object]:
        parts = [line.removesuffix(b"\r") for line in body.split(b"\n")] if self._by_line else [body]
        if self._by_line and not parts[-1]:
            parts.pop()
        return list(parts) if self._as_bytes else [part.decode() for part in parts]

    # --- noting and giving ----------------------------------------------------------------------------------

    def _note(self) -> None:
        """Write all that have arrived meanwhile, at once."""
        if self._noting or not self._arrived:
            return
        batch, fence = list(self._arrived), self._fence
        self._noting = batch
        self._arrived.clear()
        notes = [Note(posted.first, posted.count, posted.key, posted.digest) for posted in batch]
        self._calls.run(
            lambda: self._keys.append(notes), lambda result: self._was_noted(fence, batch, result)
        )

    def _was_noted(self, fence: Fence, batch: Sequence[_Posted], result: object) -> None:
        if isinstance(result, Exception):
            raise result
        # Else the notes are on the disk all the same, and which of them count the journal decides (keys.py).
        if fence == self._fence and self._following:
            self._noting = []
            self._noted.extend(batch)
            self._turn()
            self._note()

    def _turn(self) -> None:
        """Post an event for each request, so that each is a run."""
        while self._following and self._noted and self._noted[0].count <= self._records and self._size > 0:
            posted = self._noted.popleft()
            self._waiting_bytes -= posted.size
            self._given.append(posted)
            contexts = {ALL: posted.trace} if posted.trace else None
            self._post_records(THE_PARTITION, posted.first, posted.records, posted.size, traces=contexts)

    def _tell(self, posted: _Posted) -> None:
        for exchange, was_first in posted.waiting:
            known = {"time": str(posted.time)} if posted.time else {}
            exchange.answer(
                200, {"first": posted.first, "count": posted.count, "repeated": not was_first, **known}
            )
        posted.waiting.clear()


def _again(exchange: Exchange, why: str) -> None:
    exchange.answer(503, {"error": f"{why}; send it again with the same key"}, RETRY)
