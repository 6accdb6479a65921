"""An operator asks the leader of a job's shard, which alone hears its coordinator: so any replica may be asked.

Keeps: it asks at a leader's address as the leader has written it, and nowhere else, whatever a request says; the
request is passed on with its own login, and only once; MOST at a time. Does not: judge it (the leader's door does).
"""

import asyncio
import time
from typing import Final, Protocol

import aiohttp
from aiohttp import web
from yarl import URL

from flamestream.ui.source import Refused
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import Object

RELAYED: Final = "X-FlameStream-Relayed"
MOST: Final = 64
FRESH: Final = 1.0
"""Seconds for which the leader's address is believed."""
TAKES_NOTHING: Final = 15.0
NOT_PASSED_ON: Final = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade", "expect")
)
NOBODY: Final = "no operator leads at the moment: try again"


class Slices(Protocol):
    """The part of the API server that is asked."""

    async def get(self, kind: str, namespace: str, name: str) -> Object | None: ...


class Relay:
    """The way of one replica to leaders."""

    def __init__(self, api: Slices, namespace: str, port: int) -> None:
        self._api, self._namespace, self._port = api, namespace, port
        self._session: aiohttp.ClientSession | None = None
        self._leaders: dict[str, tuple[float, str]] = {}
        """When each was asked for, and its address; by Service, of which there is one a shard."""
        self._passing = 0

    async def answer(self, request: web.Request, service: str) -> web.StreamResponse:
        """The answer, as it comes, of the leader whose address is in this Service's EndpointSlice. Raises Refused
        (503) if there is none."""
        if RELAYED in request.headers or self._passing >= MOST:
            raise Refused(503, NOBODY if RELAYED in request.headers else "too many look: try again")
        self._passing += 1
        try:
            return await self._passed(request, await self._leader(service))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Refused(503, NOBODY) from error
        finally:
            self._passing -= 1

    async def close(self) -> None:
        """End its connections."""
        if self._session is not None:
            await self._session.close()

    async def _passed(self, request: web.Request, leader: str) -> web.StreamResponse:
        # Of the path alone (!): a request may name another server in its first line.
        url = URL.build(
            scheme="http", host=leader, port=self._port, path=request.rel_url.raw_path,
            query_string=request.rel_url.raw_query_string, encoded=True,
        )  # fmt: skip
        headers = [
            (name, value) for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON
        ]
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MOST), cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None, connect=5, sock_read=60),
            )  # fmt: skip
        body = await request.read() if request.can_read_body else None
        async with self._session.request(
            request.method, url, headers=[*headers, (RELAYED, "1")], data=body, allow_redirects=False
        ) as answer:
            return await _copied(request, answer)

    async def _leader(self, service: str) -> str:
        """The leader's address."""
        asked, leader = self._leaders.get(service, (-FRESH, ""))
        if time.monotonic() - asked > FRESH:
            try:
                found = await self._api.get("EndpointSlice", self._namespace, service)
            except ApiProblem as problem:
                raise Refused(503, NOBODY) from problem
            addresses = [each for end in (found or {}).get("endpoints") or () for each in end["addresses"]]
            leader = next(iter(addresses), "")
            self._leaders[service] = time.monotonic(), leader
        if not leader:
            raise Refused(503, NOBODY)
        return leader


async def _copied(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON]
    out = web.StreamResponse(status=answer.status)
    for name, value in headers:
        out.headers.add(name, value)
    await out.prepare(request)
    async for piece in answer.content.iter_any():
        await asyncio.wait_for(out.write(piece), TAKES_NOTHING)
    await out.write_eof()
    return out
