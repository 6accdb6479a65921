"""The door for queries: an HTTP port of a worker that takes part, for clients that ask for states of keys.

    GET  /v1/jobs/JOB/tables/NAME/KEY?at=stale&at_least=TIME      {"time": "TIME", "state": ...}; KEY is a text
    GET  /v1/jobs/JOB/tables/NAME?prefix=TEXT&limit=N&cursor=C    {"time": "TIME", "rows": [...], "cursor": "C"}
    POST /v1/jobs/JOB/query {"read": [["NAME", KEY], ...], ...}   {"time": "TIME", "rows": [{"name", "key", "state"}]}
    {"read": [["NAME", KEY]], "at": "stale", "unlike": [STATE]}   the same, once the state is another, or in the end

A time is a text, for it is too great for a number of JavaScript. Clients that know the job's classes say `accept:
application/msgpack`, and get states as they are encoded; and may ask in that way (`content-type`). Columns of Arrow
are a form of answers, too (reply.py).

Keeps: what goes into answers is a share of this worker's time, and half of what nothing else needs beyond it; a client
is answered once, or told why not, within a time. Does not: read a state, or know which worker has it
(core/worker/queries/gateway.py).
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import thread_time_ns
from typing import Any, Final
from urllib.parse import unquote

from flamestream.connectors.kit.spec import address_of
from flamestream.core.dataflow.placing import lookup_of
from flamestream.core.protocol.actions import Answered, NotAnswered
from flamestream.core.protocol.events import Queried
from flamestream.core.protocol.queries import MOST_KNOWN, MOST_LOOKUPS, MOST_SCANNED, Scan
from flamestream.job.manifest_queries import Queries, Tls
from flamestream.loop.background import Threads
from flamestream.model.errors import ManifestError, PayloadError
from flamestream.model.graph import Graph
from flamestream.model.time import END, Time
from flamestream.net.http_exchange import Exchange, Request
from flamestream.net.http_server import HttpServer
from flamestream.net.server_tls import ServerTls
from flamestream.node.queries.question import ENCODED, Asked, Refused, asked_by, asked_in, scan_by
from flamestream.node.queries.reply import ARROW, One, Page, Reply
from flamestream.node.queries.rows import Kept, Row, behind
from flamestream.node.queries.under_way import PATIENCE, RETRY, UnderWay, Waiting
from flamestream.ports import Post, Reactor, Timer

MOST_BODY: Final = 256 << 10
CONNECTION_US: Final = 40
"""Microseconds that a request costs, about, before it is here and behind its answer."""
TOGETHER: Final = 32
"""Requests that are read in one go, with the clock looked at once."""


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
        waited: Callable[[], int],
    ) -> None:
        """`waited`: the microseconds in which this worker has had nothing to do so far. Raises UserError for a
        certificate that cannot be read."""
        self._graph, self._kept, self._slots, self._settings = graph, Kept(graph), slots, settings
        self._reactor, self._post = reactor, post
        self._base = f"/v1/jobs/{job}/"
        self._query = f"{self._base}query"
        self._server = HttpServer(
            reactor, address_of(settings.listen), self._came, body=MOST_BODY, token=token, shared=True,
            tls=_tls_of(settings.tls, reactor),
        )  # fmt: skip
        self._threads: Threads | None = None
        self._waiting: deque[tuple[Request, Exchange, int]] = deque()
        """Requests that there is no time for yet, each of another connection, with when they came."""
        self._timer: Timer | None = None
        self._is_due = False
        """Whether what waits is taken at the next turn."""
        self._under_way = UnderWay(reactor, post)
        self._left, self._since = 0.0, reactor.instant()
        """Microseconds that may go into answers now, as of an instant."""
        self._waited, self._waited_before = waited, waited()

    @property
    def problem(self) -> str:
        """Why nobody can ask."""
        return self._server.problem

    def serve(self, here: bool, /) -> None:
        """Whether this worker takes part, and can be asked."""
        (self._server.open if here else self.close)()

    def close(self) -> None:
        """Let the port go."""
        self._under_way.end("this worker takes part no more")
        self._waiting.clear()  # their connections are closed with the port
        self._server.close()
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    # --- questions ------------------------------------------------------------------------------------------

    def _came(self, request: Request, exchange: Exchange) -> None:
        # (!) Who is above the share waits: to be told so, and to ask again, would cost as much as an answer.
        self._waiting.append((request, exchange, self._reactor.instant()))
        if self._timer is None and not self._is_due:
            self._is_due = True
            self._reactor.soon(self._turn)  # with those that come in this turn

    def _turn(self) -> None:
        """Take what waits, as long as there is time for it."""
        self._timer, self._is_due = None, False
        while self._waiting:
            if (seconds := self._rests()) > 0:
                self._timer = self._reactor.later(seconds, self._turn)
                break
            began, some = self._since, min(len(self._waiting), TOGETHER, 1 + int(self._left / CONNECTION_US))
            for _ in range(some):
                request, exchange, since = self._waiting.popleft()
                try:
                    if began - since > PATIENCE * 1e6:
                        share = f"{self._settings.share:.0%}"
                        raise Refused(429, f"answers have had {share} of this worker's time")
                    self._take(request, exchange)
                except Refused as refused:
                    again = RETRY if refused.status in (429, 503) else []
                    exchange.answer(refused.status, {"error": refused.reason}, again)
            self._spent(began, some)
        self._under_way.send()

    def _take(self, request: Request, exchange: Exchange) -> None:
        accept = request.headers.get("accept", "")
        if request.path == self._query and request.method == "POST":  # most are
            encoded = request.headers.get("content-type") == ENCODED
            self._ask(asked_in(request.body, encoded=encoded), exchange, Page, accept)
            return
        if not request.path.startswith(self._base):
            raise Refused(404, f"there is only {self._base}")
        match request.method, request.path[len(self._base) :].split("/"):
            case "GET", ["tables", name, key]:
                self._ask(asked_by(request, unquote(name), unquote(key)), exchange, One, accept)
            case "GET", ["tables", name]:
                self._ask(scan_by(request, unquote(name)), exchange, Page, accept)
            case _, ["tables", _, _] | ["tables", _] | ["query"]:
                raise Refused(405, "GET a state, or POST to query")
            case _:
                raise Refused(
                    404,
                    f"there are {self._base}tables/NAME/KEY, {self._base}tables/NAME and {self._base}query",
                )

    def _ask(self, asked: Asked, exchange: Exchange, answer: type[Page], accept: str) -> None:
        if asked.at not in ("strict", "stale"):
            raise Refused(400, f"at is strict or stale, not {asked.at!r}")
        if not asked.at_least.isdecimal() or (at_least := Time(int(asked.at_least))) > END:
            raise Refused(400, f"at_least is the time of an answer, not {asked.at_least!r}")
        rows, scan = list[Row](), None
        if asked.scan:
            scan = self._scan(asked)
        elif not 0 < len(asked.read) <= MOST_LOOKUPS:
            raise Refused(413 if asked.read else 400, f"a query is for 1 to {MOST_LOOKUPS} keys")
        else:
            rows = [self._row(name, key) for name, key in asked.read]
        lookups = [lookup_of(self._graph.vertices[row.vertex], row.encoded, self._slots) for row in rows]
        client = Waiting(exchange, answer(self._kept, rows, asked.scan), accept, lookups)
        strict = asked.at == "strict"
        if strict and scan is None and not at_least and not asked.unlike:
            self._under_way.ask_together(client)
        else:
            self._under_way.ask(client, Queried(0, lookups, strict, at_least, scan, _known(asked)))

    def _scan(self, asked: Asked) -> Scan:
        self._allowed(asked.scan)
        if not 0 < asked.limit <= MOST_SCANNED:
            raise Refused(400, f"limit is 1 to {MOST_SCANNED}, not {asked.limit}")
        try:
            after = behind(asked.cursor)
        except ManifestError as error:
            raise Refused(400, str(error)) from error
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
        began, some = self._reactor.instant(), self._under_way.told(action)
        for client, answer in some:
            self._answer(client, answer)
        self._spent(began, len(some))

    def _answer(self, client: Waiting, answer: Answered) -> None:
        page = client.page
        if client.accept == ENCODED:
            client.exchange.answer(*page.as_encoded(answer))
        elif client.accept == ARROW:
            self._make_apart(client.exchange, page, answer)
        elif page.scanned:
            self._go_on(client.exchange, page.pieces(answer), [])
        else:
            client.exchange.answer(*page.as_json(answer))

    def _go_on(self, exchange: Exchange, pieces: Iterator[bytes], made: list[bytes]) -> None:
        """Make another piece of a text; then it is the others' turn."""
        began = self._reactor.instant()
        if (piece := next(pieces, None)) is None:
            exchange.answer(200, b"".join(made))
        else:
            made.append(piece)
            self._reactor.soon(partial(self._go_on, exchange, pieces, made))
        self._left -= self._reactor.instant() - began

    def _make_apart(self, exchange: Exchange, page: Page, answer: Answered) -> None:
        # (!) The first table of Arrow imports pandas, where it is there: a second in which the stream would stand.
        if self._threads is None:
            self._threads = Threads(1, self._reactor.soon)
        self._threads.background(partial(_timed, page.as_arrow, answer), partial(self._made, exchange))

    def _made(self, exchange: Exchange, made: tuple[Reply, float] | Exception) -> None:
        """A thread has made an answer; its time is this worker's, too."""
        if isinstance(made, Exception):
            exchange.failed(made)
        else:
            reply, took = made
            self._left -= took
            exchange.answer(*reply)

    # --- the share ------------------------------------------------------------------------------------------

    def _rests(self) -> float:
        """The seconds until there is time for an answer."""
        now, waited, share = self._reactor.instant(), self._waited(), self._settings.share
        idle = waited - self._waited_before
        # at most a tenth of a second's worth is saved up
        self._left = min(self._left + (now - self._since) * share + idle, 100_000 * share)
        self._since, self._waited_before = now, waited
        return max(0.0, -self._left / (share + 1) / 1e6)  # so soon, if nothing else is to be done until then

    def _spent(self, began: int, some: int) -> None:
        """Half the way of so many requests was gone since then."""
        self._left -= self._reactor.instant() - began + some * CONNECTION_US // 2


def _tls_of(settings: Tls | None, reactor: Reactor) -> ServerTls | None:
    if settings is None:
        return None
    assert settings.cert_file is not None and settings.key_file is not None, (
        "an operator puts files for a Secret"
    )
    return ServerTls(settings.cert_file, settings.key_file, reactor)


def _known(asked: Asked) -> bytes | None:
    """The state that a client knows and waits to be another, as `Queried` has it. Raises Refused."""
    if not asked.unlike:
        return None
    if (asked.at, len(asked.read), len(asked.unlike)) != ("stale", 1, 1):
        raise Refused(400, 'unlike is the state of the one key of a query at "stale"')
    known = asked.unlike[0] or b""
    if not isinstance(known, bytes) or len(known) > MOST_KNOWN:
        raise Refused(413, f"unlike is a state of {MOST_KNOWN} bytes at most")
    return known


def _timed(reply: Callable[[Answered], Reply], answer: Answered) -> tuple[Reply, float]:
    """The reply, and the microseconds that it took."""
    began = thread_time_ns()
    return reply(answer), (thread_time_ns() - began) / 1e3
