"""/healthz and /readyz, for anybody; /metrics, for who may read them (readers.py).

`healthz` is a canary: it puts a marker through the reconcile queue's own loop and says no if nothing has
turned for too long, so a dead loop behind a living port is noticed.

Keeps: at most MOST_CONNECTIONS, each with HEAD_SECONDS for a request and between two
(flamestream.ui.listening). Does not: tell anybody of a job by itself; its status does.
"""

import time
from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from flamestream.ui.listening import listen
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
        return await listen(app, port, most=MOST_CONNECTIONS, head_seconds=HEAD_SECONDS)

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


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=(problem or "ok") + "\n")
