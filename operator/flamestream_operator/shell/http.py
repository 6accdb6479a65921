"""/healthz, /readyz, /metrics, and /jobs/NAMESPACE/NAME: a coordinator's word as it is now.

`healthz` is a canary: it puts a marker through the reconcile queue's own loop and says no if nothing has turned for too long, so a dead
loop behind a living port is noticed.

Does not: need any right.
"""

import time
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from flamestream.adapters.status_file import JobStatus

STUCK: Final = 30.0
"""Seconds after which a loop that has work and does not turn counts as dead."""


class Health:
    """What the probes ask."""

    def __init__(
        self,
        alive: Callable[[], str],
        ready: Callable[[], str],
        job: Callable[[str], JobStatus | None],
        observe: Callable[[], None],
    ) -> None:
        """`observe` brings the figures up to date."""
        self._alive, self._ready, self._job, self._observe = alive, ready, job, observe
        self.beat = time.monotonic()
        """Set by the loop that is watched."""

    async def serve(self, port: int) -> web.AppRunner:
        """Until the runner is cleaned up."""
        app = web.Application()
        app.add_routes([web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)])
        app.add_routes([web.get("/jobs/{namespace}/{name}", self._jobs)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, None, port).start()
        return runner

    async def _healthz(self, _: web.Request) -> web.Response:
        late = time.monotonic() - self.beat
        return _answer(f"the reconcile loop has not turned for {late:.0f} s" if late > STUCK else self._alive())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self._ready())

    async def _jobs(self, request: web.Request) -> web.Response:
        status = self._job(f"{request.match_info['namespace']}.{request.match_info['name']}")
        if status is None:
            return web.Response(status=404, text="no such job is coordinated here\n")
        return web.Response(body=msgspec.json.encode(status), content_type="application/json")

    async def _metrics(self, _: web.Request) -> web.Response:
        self._observe()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=(problem or "ok") + "\n")
