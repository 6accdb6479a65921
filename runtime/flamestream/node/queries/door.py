"""The door for queries: an HTTP port of a worker that takes part, for clients that ask for states of keys.

    GET  /v1/jobs/JOB/tables/NAME/KEY?at=stale&at_least=TIME      {"time": "TIME", "state": ...}; KEY is a text
    POST /v1/jobs/JOB/query {"read": [["NAME", KEY], ...], ...}   {"time": "TIME", "rows": [{"name", "key", "state"}]}

A time is a text, for it is too great for a number of JavaScript. Clients that know the job's classes say `accept:
application/msgpack`, and get states as they are encoded; and may ask in that way (`content-type`).

Keeps: what goes into answers is a share of this worker's time; a client is answered once, or told why not, within a
time. Does not: read a state, or know which worker has it (core/worker/queries.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec.structs import replace

from flamestream.connectors.kit.spec import address_of
from flamestream.core.dataflow.placing import lookup_of
from flamestream.core.protocol.actions import Answered, NotAnswered
from flamestream.core.protocol.events import Queried, QueryLeft
from flamestream.core.protocol.queries import MOST_LOOKUPS
from flamestream.job.manifest_queries import Queries
from flamestream.model.decoding import DecodeError, from_json, from_msgpack
from flamestream.model.errors import ManifestError, PayloadError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import decode
from flamestream.model.payloads.plain import plain
from flamestream.model.time import END, Time
from flamestream.net.http_exchange import Exchange, Request
from flamestream.net.http_server import HttpServer
from flamestream.node.queries.rows import Kept, Row
from flamestream.ports import Post, Reactor, Timer

PATIENCE: Final = 5.0
"""Seconds after which a client is told that there is no answer."""
MOST_BODY: Final = 256 << 10
ENCODED: Final = "application/msgpack"
CONNECTION_US: Final = 150
"""Microseconds that a request costs, about, before it is here and behind its answer."""
RETRY: Final = [("retry-after", "1")]


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST."""

    read: list[tuple[str, Any]]
    """Names, each with a key: as JSON has it, or as it is encoded."""
    at: str = "strict"
    at_least: str = "0"


class Refused(Exception):
    """A request that gets no answer: its status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(slots=True)
class _Open:
    exchange: Exchange
    rows: Sequence[Row]
    answer: Callable[["_Open", Answered], None]
    timer: Timer | None = None
    began: int = field(default=0)


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
        self._server.close()

    # --- questions ------------------------------------------------------------------------------------------

    def _came(self, request: Request, exchange: Exchange) -> None:
        began = self._reactor.instant()
        try:
            self._take(request, exchange)
        except Refused as refused:
            again = RETRY if refused.status in (429, 503) else []
            exchange.answer(refused.status, {"error": refused.reason}, again)
        self._spent(began)

    def _take(self, request: Request, exchange: Exchange) -> None:
        if not request.path.startswith(self._base):
            raise Refused(404, f"there is only {self._base}")
        if self._has_spent_all():
            raise Refused(429, f"answers have had {self._settings.share:.0%} of this worker's time")
        path = request.path[len(self._base) :].split("/")
        match request.method, path:
            case "GET", ["tables", name, key]:
                asked, answer = _asked_by(request, unquote(name), unquote(key)), _one
            case "POST", ["query"]:
                encoded = request.headers.get("content-type") == ENCODED
                asked, answer = _asked_in(request.body, encoded=encoded), _all
            case _, ["tables", _, _] | ["query"]:
                raise Refused(405, "GET a state, or POST to query")
            case _:
                raise Refused(404, f"there are {self._base}tables/NAME/KEY and {self._base}query")
        if request.headers.get("accept") == ENCODED:
            answer = _encoded
        self._ask(asked, exchange, answer)

    def _ask(self, asked: Asked, exchange: Exchange, answer: Callable[[_Open, Answered], None]) -> None:
        if asked.at not in ("strict", "stale"):
            raise Refused(400, f"at is strict or stale, not {asked.at!r}")
        if not asked.at_least.isdecimal() or (at_least := Time(int(asked.at_least))) > END:
            raise Refused(400, f"at_least is the time of an answer, not {asked.at_least!r}")
        if not 0 < len(asked.read) <= MOST_LOOKUPS:
            raise Refused(413 if asked.read else 400, f"a query is for 1 to {MOST_LOOKUPS} keys")
        rows = [self._row(name, key) for name, key in asked.read]
        lookups = [lookup_of(self._graph.vertices[row.vertex], row.encoded, self._slots) for row in rows]
        self._number = number = self._number + 1
        late = self._reactor.later(PATIENCE, partial(self._late, number))
        self._open[number] = _Open(exchange, rows, answer, late)
        self._post(Queried(number, lookups, asked.at == "strict", at_least))

    def _row(self, name: str, key: Any) -> Row:
        allowed = self._settings.tables
        if allowed and name not in allowed:
            raise Refused(
                403, f"{name!r} may not be asked for here: spec.queries.tables has {', '.join(allowed)}"
            )
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

    def _late(self, number: int) -> None:
        self._post(QueryLeft(number))
        self._refuse(
            number, 504, f"no answer within {PATIENCE:g} s: the job recovers, or at_least is not reached"
        )

    def _refuse(self, number: int, status: int, reason: str) -> None:
        if (open_ := self._done(number)) is not None:
            open_.exchange.answer(status, {"error": reason}, RETRY if status == 503 else [])

    def _done(self, number: int) -> _Open | None:
        found = self._open.pop(number, None)
        if found is not None and found.timer is not None:
            found.timer.cancel()
        return found

    # --- the share ------------------------------------------------------------------------------------------

    def _has_spent_all(self) -> bool:
        now, share = self._reactor.instant(), self._settings.share
        # at most a tenth of a second's worth is saved up
        self._left = min(self._left + (now - self._since) * share, 100_000 * share)
        self._since = now
        return self._left < 0

    def _spent(self, began: int) -> None:
        self._left -= self._reactor.instant() - began + CONNECTION_US // 2


def _asked_by(request: Request, name: str, key: str) -> Asked:
    given = {word: values[-1] for word, values in parse_qs(request.query).items()}
    if unknown := given.keys() - {"at", "at_least"}:
        raise Refused(400, f"{', '.join(sorted(unknown))} means nothing here: there are at and at_least")
    return Asked([(name, key)], **given)


def _asked_in(body: bytes, *, encoded: bool) -> Asked:
    try:
        asked = from_msgpack(body, Asked) if encoded else from_json(body, Asked)
        key_of = decode if encoded else _hashable
        return replace(asked, read=[(name, key_of(key)) for name, key in asked.read])
    except (DecodeError, PayloadError, TypeError) as error:
        raise Refused(
            400, f'the body is like {{"read": [["accounts", "ann"]], "at": "strict"}}: {error}'
        ) from error


def _hashable(key: Any) -> Any:
    """A key of JSON as a payload: a list is a tuple."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


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


def _encoded(open_: _Open, answer: Answered) -> None:
    body = msgspec.msgpack.encode((answer.time, answer.states))
    open_.exchange.answer(200, body, [("content-type", ENCODED)])


def _plain(state: bytes) -> Any:
    return msgspec.to_builtins(decode(state), enc_hook=plain)
