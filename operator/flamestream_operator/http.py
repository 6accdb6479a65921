"""/healthz and /readyz, for anybody; /metrics, for who may read them (readers.py).

`healthz` is a canary: it puts a marker through the reconcile queue's own loop and says no if nothing has
turned for too long, so a dead loop behind a living port is noticed.

Keeps: at most MOST_CONNECTIONS, each with HEAD_SECONDS for a request and between two; who came last gets the
place of the oldest of the address that has most, so silent connections hide nothing from probes. Does not:
tell anybody of a job by itself; its status does.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from flamestream.net.admission import Admission, peer_of
from flamestream_operator.kube.readers import NO_LOGIN, OK, Readers

STUCK: Final = 30.0
"""Seconds after which a loop that has work and does not turn counts as dead."""
MOST_CONNECTIONS: Final = 64
HEAD_SECONDS: Final = 5.0


class Health:
    """The server of probes and figures."""

    def __init__(
        self,
        alive: Callable[[], str],
        ready: Callable[[], str],
        readers: Readers,
        observe: Callable[[], None],
    ) -> None:
        """`observe` brings the figures up to date."""
        self._alive, self._ready, self._readers, self._observe = alive, ready, readers, observe
        self.beat = time.monotonic()
        """Set by the loop that is watched."""
        self._listener: asyncio.Server | None = None

    async def serve(self, port: int) -> web.AppRunner:
        """Until the runner is cleaned up."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        # The runner closes the sites that it made, and the listener is ours.
        app.on_shutdown.append(self._listen_no_more)
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=HEAD_SECONDS)
        await runner.setup()
        server = runner.server
        assert server is not None, "it was set up"

        def entered() -> asyncio.BaseProtocol:
            _make_room(server)
            return server()

        self._listener = await asyncio.get_running_loop().create_server(entered, None, port)
        return runner

    async def _listen_no_more(self, _: web.Application) -> None:
        if self._listener is not None:
            self._listener.close()

    async def _healthz(self, _: web.Request) -> web.Response:
        late = time.monotonic() - self.beat
        return _answer(
            f"the reconcile loop has not turned for {late:.0f} s" if late > STUCK else self._alive()
        )

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self._ready())

    async def _metrics(self, request: web.Request) -> web.Response:
        status = await self._readers.status(request.headers.get("Authorization", ""), "/metrics")
        if status != OK:
            headers = {"WWW-Authenticate": "Bearer"} if status == NO_LOGIN else {}
            return web.Response(
                status=status, text="see metrics.readers in the chart's values\n", headers=headers
            )
        self._observe()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _make_room(server: web.Server) -> None:
    """Close connections until there is room for one more. No handler here takes its time, so others only
    wait, or do not read."""
    inside = Admission[web.RequestHandler](MOST_CONNECTIONS)
    for connection in server.connections:
        if connection.transport is not None:  # it may be on its way out
            inside.enter(connection, peer_of(connection.peername))
    # probes always get through (!)
    while inside.full and (other := inside.gives_way("", lambda _: True)) is not None:
        inside.leave(other)
        transport = other.transport
        other.force_close()
        if transport is not None:
            transport.abort()  # else one that does not read would stay until it has


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=(problem or "ok") + "\n")
