"""The server of the page: its files, the API that they ask (docs/reference/page.md), and events.

Keeps: answers say that nothing from elsewhere may run in the page, be shown in it or show it; errors are JSON. Does
not: know where jobs are (source.py).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from flamestream.ui.gate import Gate
from flamestream.ui.source import JobSource, Kind, Refused
from flamestream.ui.viewers import Viewers, figures

STATIC: Final = Path(__file__).parent / "static"
"""The page as `scripts/page.py` builds it."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TAKES_NOTHING: Final = 15.0
"""Seconds after which a viewer is let go that takes nothing."""
PULSE: Final = 10.0
"""Seconds between two signs of life to a viewer who is told nothing."""
MOST_BODY: Final = 64 << 10
ANSWERED: Final[tuple[Kind, ...]] = ("graph", "snapshots", "item")
STARTED: Final[tuple[Kind, ...]] = ("audit", "drill")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(source: JobSource, gate: Gate, *, version: str) -> web.Application:
    """The server, to be run by a runner of aiohttp's. Its looks begin with it and end with it."""
    app = web.Application(middlewares=[_guarded(gate)], client_max_size=MOST_BODY)
    api = _Api(source, gate, version)
    app.add_routes(
        [
            web.get("/", _page),
            web.get("/assets/{name}", _asset),
            web.post("/api/v1/login", api.login),
            web.get("/api/v1", api.about),
            web.get("/api/v1/jobs", api.jobs),
            web.get("/api/v1/events", api.events),
            web.get("/api/v1/jobs/{job}", api.job),
            web.get("/api/v1/jobs/{job}/figures", api.figures),
            web.get("/api/v1/jobs/{job}/logs", api.logs),
            *(web.get(f"/api/v1/jobs/{{job}}/{{kind:{kind}}}", api.answered) for kind in ANSWERED),
            *(web.get(f"/api/v1/jobs/{{job}}/{{kind:{kind}}}", api.ran) for kind in STARTED),
            *(web.post(f"/api/v1/jobs/{{job}}/{{kind:{kind}}}", api.start) for kind in STARTED),
        ]
    )
    app.cleanup_ctx.append(api.looking)
    return app


def _guarded(gate: Gate) -> Any:
    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await _answer(gate, request, handler)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    return guarded


async def _answer(gate: Gate, request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        if request.path.startswith("/api/") and request.path != "/api/v1/login":
            status = gate.refuses(request.headers, request.cookies, changes=request.method == "POST")
            if status is not None:
                return _error(status, status.phrase)
        elif not gate.is_ours(request.headers.get("Host", "")):
            return _error(421, "this server has another name")
        return await handler(request)
    except Refused as refused:
        return _error(refused.status, str(refused))
    except web.HTTPException as error:
        return _error(error.status, error.reason)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value, enc_hook=str), status=status, content_type="application/json"
    )


def _error(status: int, message: str) -> web.Response:
    return _json({"error": {"message": message}}, status)


async def _page(_: web.Request) -> web.StreamResponse:
    return _file(STATIC / "index.html", "text/html")


async def _asset(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    path = STATIC / "assets" / name
    if path.suffix not in kinds or path.name not in _assets():
        raise Refused(404, f"there is no file {name!r}")
    return _file(path, kinds[path.suffix])


def _assets() -> set[str]:
    """The names that there are: no other path is opened (!), whatever a request says."""
    return {path.name for path in (STATIC / "assets").iterdir()}


def _file(path: Path, kind: str) -> web.Response:
    try:
        return web.Response(body=path.read_bytes(), content_type=kind, charset="utf-8")
    except FileNotFoundError:
        raise Refused(404, "the page is not built: run `make setup` where there is Node 20 and npm") from None


class _Api:
    def __init__(self, source: JobSource, gate: Gate, version: str) -> None:
        self._source, self._gate, self._version = source, gate, version
        self._viewers = Viewers(source)

    async def looking(self, _: web.Application) -> AsyncIterator[None]:
        """As long as the server is there."""
        self._source.look()
        task = asyncio.create_task(self._viewers.turn())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await self._source.close()

    async def login(self, request: web.Request) -> web.StreamResponse:
        """A cookie for who has the token."""
        if not self._gate.is_ours(request.headers.get("Host", "")) or not self._gate.proves(
            await request.text()
        ):
            raise Refused(401, "this is not the token that the server's address has")
        answer = _json({})
        answer.set_cookie(
            self._gate.cookie, await request.text(), httponly=True, samesite="Strict", path="/api/"
        )
        return answer

    async def about(self, _: web.Request) -> web.StreamResponse:
        return _json({"version": self._version, "actions": self._source.actions})

    async def jobs(self, _: web.Request) -> web.StreamResponse:
        return _json({"jobs": self._source.rows()})

    async def job(self, request: web.Request) -> web.StreamResponse:
        return _json(self._source.status(request.match_info["job"]))

    async def figures(self, request: web.Request) -> web.StreamResponse:
        job = request.match_info["job"]
        body = figures(self._source.samples(job), self._source.marks(job))
        return web.Response(body=body, content_type="application/json")

    async def logs(self, request: web.Request) -> web.StreamResponse:
        job, asked = request.match_info["job"], dict(request.query)
        return _json({"lines": await asyncio.to_thread(self._source.logs, job, asked)})

    async def answered(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._source.answer(*_command(request), dict(request.query)))

    async def ran(self, request: web.Request) -> web.StreamResponse:
        return _json(self._source.ran(*_command(request)))

    async def start(self, request: web.Request) -> web.StreamResponse:
        return _json(self._source.start(*_command(request), dict(request.query)), 202)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Events, until the viewer goes."""
        viewer = self._viewers.enter(request.query.get("job", ""))
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        try:
            await answer.prepare(request)
            while True:
                try:
                    data = await asyncio.wait_for(viewer.told(), PULSE)
                except TimeoutError:
                    data = b": there is nothing new\n\n"
                await asyncio.wait_for(answer.write(data), TAKES_NOTHING)
        except (ConnectionError, TimeoutError):  # it has gone, or takes nothing
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._viewers.leave(viewer)
        return answer


def _command(request: web.Request) -> tuple[str, Kind]:
    kinds: dict[str, Kind] = {kind: kind for kind in (*ANSWERED, *STARTED)}
    return request.match_info["job"], kinds[request.match_info["kind"]]
