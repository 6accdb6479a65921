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

from flamestream.ui.door import Caller, Door, What, from_here
from flamestream.ui.listening import STREAMS, Streams
from flamestream.ui.source import JobSource, Kind, Refused
from flamestream.ui.viewers import MOST, Viewer, Viewers, figures

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
STARTS: Final[tuple[Kind, ...]] = (*STARTED, "item")
"""Started by a POST: on a cluster an item is looked for by a pod."""
FULL: Final = (429, 503)
LOGIN: Final = "/api/v1/login"
CALLER: Final = web.RequestKey("caller", Caller)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(source: JobSource, door: Door, *, version: str, most_of_one: int = MOST) -> web.Application:
    """The server, to be run by a runner of aiohttp's. Its looks begin with it and end with it. `most_of_one`: viewers
    of one caller."""
    app = web.Application(middlewares=[_guarded(door)], client_max_size=MOST_BODY)
    app[STREAMS] = set()
    api = _Api(source, door, version, Viewers(source, most_of_one), app[STREAMS])
    app.add_routes(
        [
            web.get("/", _page),
            web.get("/assets/{name}", _asset),
            web.post(LOGIN, api.login),
            web.get("/api/v1", api.about),
            web.get("/api/v1/jobs", api.jobs),
            web.get("/api/v1/events", api.events),
            web.get("/api/v1/jobs/{job}", api.job),
            web.get("/api/v1/jobs/{job}/figures", api.figures),
            web.get("/api/v1/jobs/{job}/logs", api.logs),
            *(web.get(f"/api/v1/jobs/{{job}}/{{kind:{kind}}}", api.answered) for kind in ANSWERED),
            *(web.get(f"/api/v1/jobs/{{job}}/{{kind:{kind}}}", api.ran) for kind in STARTED),
            *(web.post(f"/api/v1/jobs/{{job}}/{{kind:{kind}}}", api.start) for kind in STARTS),
        ]
    )
    app.cleanup_ctx.append(api.looking)
    return app


def _guarded(door: Door) -> Any:
    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await _answer(door, request, handler)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    return guarded


async def _answer(door: Door, request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        if not door.is_ours(request.headers.get("Host", "")):
            raise Refused(421, "this server has another name")
        if request.path.startswith("/api/") and request.path != LOGIN:
            request[CALLER] = await door.enter(
                request.headers, request.cookies, changes=request.method == "POST"
            )
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
    answer = _json({"error": {"message": message}}, status)
    if status in FULL:
        answer.force_close()  # who finds no room for one thing takes none for another
    return answer


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
    def __init__(
        self, source: JobSource, door: Door, version: str, viewers: Viewers, streams: Streams
    ) -> None:
        self._source, self._door, self._version = source, door, version
        self._viewers, self._streams = viewers, streams

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
        """A cookie for who has a token."""
        if not from_here(request.headers):
            raise Refused(403, "another site lets nobody in here")
        cookie = await self._door.login(request.headers, (await request.text()).strip())
        answer = _json({})
        # Without a path it is for the folder of this address: behind a proxy, which has others beside it, too.
        answer.set_cookie(cookie.name, cookie.value, httponly=True, samesite="Strict", path="")
        return answer

    async def about(self, _: web.Request) -> web.StreamResponse:
        source = self._source
        told = {"version": self._version, "actions": source.actions, "kinds": source.kinds}
        return _json({**told, "victims": source.victims, "namespaced": source.namespaced})

    async def jobs(self, request: web.Request) -> web.StreamResponse:
        sees = await request[CALLER].listed()
        return _json({"jobs": [row for row in self._source.rows() if sees(row.job)]})

    async def job(self, request: web.Request) -> web.StreamResponse:
        return _json(self._source.status(await _asked(request, "job")))

    async def figures(self, request: web.Request) -> web.StreamResponse:
        job = await _asked(request, "job")
        body = figures(self._source.samples(job), self._source.marks(job))
        return web.Response(body=body, content_type="application/json")

    async def logs(self, request: web.Request) -> web.StreamResponse:
        job = await _asked(request, "logs")
        return _json({"lines": await self._source.logs(job, dict(request.query))})

    async def answered(self, request: web.Request) -> web.StreamResponse:
        kind = self._kind(request)
        return _json(await self._source.answer(await _asked(request, kind), kind, dict(request.query)))

    async def ran(self, request: web.Request) -> web.StreamResponse:
        kind = self._kind(request)
        return _json(self._source.ran(await _asked(request, kind), kind))

    async def start(self, request: web.Request) -> web.StreamResponse:
        kind = self._kind(request)
        job = await _asked(request, kind, does=True)
        ran = await self._source.start(job, kind, dict(request.query), by=request[CALLER].name)
        return _json(ran, 202)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Events, until the viewer goes, or may look no more."""
        caller, job = request[CALLER], request.query.get("job", "")
        viewer = await self._entered(caller, job)
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        self._streams.add(request.protocol)
        try:
            await answer.prepare(request)
            while True:
                try:
                    data = await asyncio.wait_for(viewer.told(), PULSE)
                except TimeoutError:
                    data = b": there is nothing new\n\n"
                await asyncio.wait_for(answer.write(data), TAKES_NOTHING)
                await self._check(caller, viewer)
        except (ConnectionError, TimeoutError):  # it has gone, or takes nothing
            if request.transport is not None:
                request.transport.abort()
        except Refused:  # its right was taken away, and it asks anew for why
            return answer
        finally:
            self._viewers.leave(viewer)
            self._streams.discard(request.protocol)
        return answer

    async def _entered(self, caller: Caller, job: str) -> Viewer:
        if job:
            await caller.check(job, "job")
        return self._viewers.enter(job, await caller.listed(), caller.name)

    async def _check(self, caller: Caller, viewer: Viewer) -> None:
        """Again and again: a stream is longer than a right."""
        if viewer.job:
            await caller.check(viewer.job, "job")
        else:
            viewer.sees = await caller.listed()

    def _kind(self, request: web.Request) -> Kind:
        named = request.match_info["kind"]
        for kind in self._source.kinds:
            if kind == named:
                return kind
        raise Refused(404, f"there is no {named} here")


async def _asked(request: web.Request, what: What, *, does: bool = False) -> str:
    """The job that is asked for, if the caller may."""
    job = request.match_info["job"]
    await request[CALLER].check(job, what, does=does)
    return job
