"""The way of lightkube's requests to the API server: aiohttp under httpx2, for requests and answers that are whole.

A launch asks some thirty things, and httpx2's own transport (h11 and anyio, all of it Python) takes two thirds of such
a request's processor time. aiohttp is here already: kopf watches with it, and the probes are served by it.

Keeps: a failure is the error that httpx2's own transport would raise; a request goes out once (but for one that reads,
on a connection that turns out to be closed). Does not: stream, or upgrade a connection (commands in pods have httpx2's
own transport).
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from yarl import URL

MOST_CONNECTIONS = 32


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """A transport of httpx2; its session begins with the first request, in the loop of that."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, with all of its body."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS, ssl=self._context),
                cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
            )  # fmt: skip
        body = await request.aread()
        headers = [(name, value) for name, value in request.headers.items() if name not in _CLIENTS_OWN]
        with _as_httpx(request):
            async with self._session.request(
                request.method, URL(str(request.url), encoded=True), headers=headers, data=body or None,
                timeout=_timeout(request.extensions.get("timeout") or {}), allow_redirects=False,
            ) as answer:  # fmt: skip
                content = await answer.read()
                return httpx2.Response(
                    answer.status, headers=answer.raw_headers, content=content, request=request
                )

    async def aclose(self) -> None:
        """End its connections."""
        if self._session is not None:
            await self._session.close()


_CLIENTS_OWN = frozenset(("host", "connection", "content-length", "transfer-encoding"))
"""Headers that aiohttp writes itself."""


def _timeout(asked: dict[str, float | None]) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=None, connect=asked.get("pool"), sock_connect=asked.get("connect"), sock_read=asked.get("read")
    )


@contextmanager
def _as_httpx(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
        timed_out = isinstance(error, aiohttp.ConnectionTimeoutError)
        kind = httpx2.ConnectTimeout if timed_out else httpx2.ConnectError
        raise kind(str(error), request=request) from error
    except TimeoutError as error:
        raise httpx2.ReadTimeout(str(error), request=request) from error
    except aiohttp.ClientOSError as error:
        raise httpx2.ReadError(str(error), request=request) from error
    except aiohttp.ClientError as error:
        raise httpx2.RemoteProtocolError(str(error), request=request) from error
