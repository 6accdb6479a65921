"""The door for queries: an HTTP port of a worker that takes part, for clients that ask for states of keys.

    GET  /v1/jobs/JOB/tables/NAME/KEY?at=stale&at_least=TIME      {"time": "TIME", "state": ...}; KEY is a text
    GET  /v1/jobs/JOB/tables/NAME?prefix=TEXT&limit=N&cursor=C    {"time": "TIME", "rows": [...], "cursor": "C"}
    POST /v1/jobs/JOB/query {"read": [["NAME", KEY], ...], ...}   {"time": "TIME", "rows": [{"name", "key", "state"}]}

A time is a text, for it is too great for a number of JavaScript. Clients that know the job's classes say `accept:
application/msgpack`, and get states as they are encoded; and may ask in that way (`content-type`).

Keeps: what goes into answers is a share of this worker's time; a client is answered once, or told why not, within a
time. Does not: read a state, or know which worker has it (core/worker/queries/gateway.py).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from flamestream.connectors.kit.spec import address_of
from flamestream.core.dataflow.placing import lookup_of
from flamestream.core.protocol.actions import Answered, NotAnswered
from flamestream.core.protocol.events import Queried, QueryLeft
from flamestream.core.protocol.queries import MOST_LOOKUPS, MOST_SCANNED, Scan
from flamestream.job.manifest_queries import Queries
from flamestream.model.errors import ManifestError, PayloadError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.payloads.plain import plain
from flamestream.model.time import END, Time
from flamestream.net.http_exchange import Exchange, Request
from flamestream.net.http_server import HttpServer
from flamestream.node.queries.question import ENCODED, Asked, Refused, asked_by, asked_in, scan_by
from flamestream.node.queries.rows import Kept, Row
from flamestream.ports import Post, Reactor, Timer

PATIENCE: Final = 5.0
"""Seconds after which a client is told that there is no answer."""
SCANS: Final = 30.0
"""The same for scans."""
MOST_BODY: Final = 256 << 10
CONNECTION_US: Final = 150
"""Microseconds that a request costs, about, before it is here and behind its answer."""
RETRY: Final = [("retry-after", "1")]


@dataclass(slots=True)
class _Open:
    exchange: Exchange
    rows: Sequence[Row]
    name: str
    """The name whose keys they are, in a scan."""
    answer: Callable[["_Open", Answered], None]
    seconds: float
    """So long it may wait for its answer."""
    timer: Timer


class QueryDoor:
    """`ports.Asking`."""

    def __init__(
        self,
        graph: Graph,
        job: str,
        slots: int,
        settings: Queries,
        token: str | None,
        reactor: Reactor,
        post: Post,
    ) -> None:
        self._graph, self._kept, self._slots, self._settings = graph, Kept(graph), slots, settings
        self._reactor, self._post = reactor, post
        self._base = f"/v1/jobs/{job}/"
        self._server = HttpServer(
            reactor, address_of(settings.listen), self._came, body=MOST_BODY, token=token, shared=True
        )
        self._waiting: deque[tuple[Request, Exchange, int]] = deque()
        """Requests that there is no time for yet, each of another connection, with when they came."""
        self._timer: Timer | None = None
        self._open: dict[int, _Open] = {}
        self._number = 0
        self._left, self._since = 0.0, reactor.instant()
        """Microseconds that may go into answers now, as of an instant."""

    @property
    def problem(self) -> str:
        """Why nobody can ask."""
        return self._server.problem

    def serve(self, here: bool, /) -> None:
        """Whether this worker takes part, and can be asked."""
        (self._server.open if here else self.close)()

    def close(self) -> None:
        """Let the port go."""
        for number in list(self._open):
            self._refuse(number, 503, "this worker takes part no more")
        self._waiting.clear()  # their connections are closed with the port
        self._server.close()

    # --- questions ------------------------------------------------------------------------------------------

    def _came(self, request: Request, exchange: Exchange) -> None:
        # (!) Who is above the share waits: to be told so, and to ask again, would cost as much as an answer.
        self._waiting.append((request, exchange, self._reactor.instant()))
        if self._timer is None:
            self._turn()

    def _turn(self) -> None:
        """Take what waits, as long as there is time for it."""
        self._timer = None
        while self._waiting:
            if (seconds := self._rests()) > 0:
                self._timer = self._reactor.later(seconds, self._turn)
                return
            request, exchange, since = self._waiting.popleft()
            began = self._reactor.instant()
            try:
                if began - since > PATIENCE * 1e6:
                    raise Refused(429, f"answers have had {self._settings.share:.0%} of this worker's time")
                self._take(request, exchange)
            except Refused as refused:
                again = RETRY if refused.status in (429, 503) else []
                exchange.answer(refused.status, {"error": refused.reason}, again)
            self._spent(began)

    def _take(self, request: Request, exchange: Exchange) -> None:
        if not request.path.startswith(self._base):
            raise Refused(404, f"there is only {self._base}")
        path = request.path[len(self._base) :].split("/")
        match request.method, path:
            case "GET", ["tables", name, key]:
                asked, answer = asked_by(request, unquote(name), unquote(key)), _one
            case "GET", ["tables", name]:
                asked, answer = scan_by(request, unquote(name)), _all
            case "POST", ["query"]:
                encoded = request.headers.get("content-type") == ENCODED
                asked, answer = asked_in(request.body, encoded=encoded), _all
            case _, ["tables", _, _] | ["tables", _] | ["query"]:
                raise Refused(405, "GET a state, or POST to query")
            case _:
                raise Refused(
                    404,
                    f"there are {self._base}tables/NAME/KEY, {self._base}tables/NAME and {self._base}query",
                )
        if asked.scan:
            answer = self._page
        if request.headers.get("accept") == ENCODED:
            answer = self._encoded
        self._ask(asked, exchange, answer)

    def _ask(self, asked: Asked, exchange: Exchange, answer: Callable[[_Open, Answered], None]) -> None:
        if asked.at not in ("strict", "stale"):
            raise Refused(400, f"at is strict or stale, not {asked.at!r}")
        if not asked.at_least.isdecimal() or (at_least := Time(int(asked.at_least))) > END:
            raise Refused(400, f"at_least is the time of an answer, not {asked.at_least!r}")
        self._number = number = self._number + 1
        strict, rows, scan = asked.at == "strict", list[Row](), None
        if asked.scan:
            scan = self._scan(asked)
        elif not 0 < len(asked.read) <= MOST_LOOKUPS:
            raise Refused(413 if asked.read else 400, f"a query is for 1 to {MOST_LOOKUPS} keys")
        else:
            rows = [self._row(name, key) for name, key in asked.read]
        lookups = [lookup_of(self._graph.vertices[row.vertex], row.encoded, self._slots) for row in rows]
        seconds = PATIENCE if scan is None else SCANS
        late = self._reactor.later(seconds, partial(self._late, number))
        self._open[number] = _Open(exchange, rows, asked.scan, answer, seconds, late)
        self._post(Queried(number, lookups, strict, at_least, scan))

    def _scan(self, asked: Asked) -> Scan:
        self._allowed(asked.scan)
        if not 0 < asked.limit <= MOST_SCANNED:
            raise Refused(400, f"limit is 1 to {MOST_SCANNED}, not {asked.limit}")
        try:
            after = urlsafe_b64decode(asked.cursor)
        except ValueError as error:
            raise Refused(400, f"cursor is what an earlier answer said, not {asked.cursor!r}") from error
        try:
            vertex, matching = self._kept.matching(asked.scan, asked.prefix)
        except ManifestError as error:
            raise Refused(404, str(error)) from error
        return Scan(vertex, matching, after, asked.limit)

    def _allowed(self, name: str) -> None:
        allowed = self._settings.tables
        if allowed and name not in allowed:
            raise Refused(
                403, f"{name!r} may not be asked for here: spec.queries.tables has {', '.join(allowed)}"
            )

    def _row(self, name: str, key: Any) -> Row:
        self._allowed(name)
        try:
            return self._kept.row(name, key)
        except PayloadError as error:
            raise Refused(400, f"{key!r} is no key: {error}") from error
        except ManifestError as error:
            raise Refused(404, str(error)) from error

    # --- answers --------------------------------------------------------------------------------------------

    def told(self, action: Answered | NotAnswered) -> None:
        """The worker has an answer, or none."""
        began = self._reactor.instant()
        if isinstance(action, NotAnswered):
            self._refuse(action.number, 503 if action.again else 409, action.reason)
        elif (open_ := self._done(action.number)) is not None:
            open_.answer(open_, action)
        self._spent(began)

    def _page(self, open_: _Open, answer: Answered) -> None:
        rows = [
            {
                "key": msgspec.to_builtins(self._kept.key(open_.name, key), enc_hook=plain),
                "state": None if state is None else _plain(state),
            }
            for key, state in zip(answer.keys, answer.states, strict=True)
        ]
        cursor = {"cursor": urlsafe_b64encode(answer.upto).decode()} if answer.upto else {}
        open_.exchange.answer(200, {"time": str(answer.time), "rows": rows, **cursor})

    def _encoded(self, open_: _Open, answer: Answered) -> None:
        keys = [encode(self._kept.key(open_.name, key)) for key in answer.keys]
        body = msgspec.msgpack.encode((answer.time, answer.states, keys, answer.upto))
        open_.exchange.answer(200, body, [("content-type", ENCODED)])

    def _late(self, number: int) -> None:
        self._post(QueryLeft(number))
        if (open_ := self._open.get(number)) is not None:
            why = "the job recovers, or at_least is not reached"
            self._refuse(number, 504, f"no answer within {open_.seconds:g} s: {why}")

    def _refuse(self, number: int, status: int, reason: str) -> None:
        if (open_ := self._done(number)) is not None:
            open_.exchange.answer(status, {"error": reason}, RETRY if status == 503 else [])

    def _done(self, number: int) -> _Open | None:
        found = self._open.pop(number, None)
        if found is not None:
            found.timer.cancel()
        return found

    # --- the share ------------------------------------------------------------------------------------------

    def _rests(self) -> float:
        """The seconds until there is time for an answer."""
        now, share = self._reactor.instant(), self._settings.share
        # at most a tenth of a second's worth is saved up
        self._left = min(self._left + (now - self._since) * share, 100_000 * share)
        self._since = now
        return max(0.0, -self._left / share / 1e6)

    def _spent(self, began: int) -> None:
        self._left -= self._reactor.instant() - began + CONNECTION_US // 2


def _one(open_: _Open, answer: Answered) -> None:
    (row,), (state,) = open_.rows, answer.states
    if state is None:
        open_.exchange.answer(404, {"time": str(answer.time), "error": f"{row.written} has no state"})
    else:
        open_.exchange.answer(200, {"time": str(answer.time), "state": _plain(state)})


def _all(open_: _Open, answer: Answered) -> None:
    rows = [
        {"name": row.name, "key": msgspec.to_builtins(row.key, enc_hook=plain)}
        | ({} if state is None else {"state": _plain(state)})
        for row, state in zip(open_.rows, answer.states, strict=True)
    ]
    open_.exchange.answer(200, {"time": str(answer.time), "rows": rows})


def _plain(state: bytes) -> Any:
    return msgspec.to_builtins(decode(state), enc_hook=plain)
