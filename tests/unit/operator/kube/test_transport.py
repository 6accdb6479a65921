"""The operator's requests go by aiohttp and seem to go by httpx2: the same answers, the same errors."""

import asyncio
import gzip
import ssl
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from flamestream_operator.kube.transport import AiohttpTransport

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _asked(
    serve: Serve, transport: httpx2.AsyncBaseTransport | None, body: bytes | None
) -> httpx2.Response:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(closing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(0.3), trust_env=False) as client,
    ):
        return await client.request(
            "PATCH", f"http://127.0.0.1:{port}/a%20b?c=d%2Fe", content=body, headers={"X-A": "b"}
        )


def asked(serve: Serve, body: bytes | None = None, *, ours: bool = True) -> httpx2.Response:
    return asyncio.run(_asked(serve, AiohttpTransport(ssl.create_default_context()) if ours else None, body))


def answering(answer: bytes, heard: list[bytes]) -> Serve:
    """Answers this once it has heard the head and as much of a body as that says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (line[16:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0"
        )
        heard.append(head + await reader.readexactly(int(length)))
        writer.write(answer)

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says nothing until the other end has gone."""
    await reader.read(-1)


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


def test_a_request_and_its_answer_come_whole() -> None:
    heard = list[bytes]()
    packed = gzip.compress(b'{"kind": "Pod"}')
    head = b"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    answer = asked(answering(head + b"Content-Length: %d\r\n\r\n" % len(packed) + packed, heard), b'{"a": 1}')
    assert (answer.status_code, answer.json()) == (409, {"kind": "Pod"})
    first, *_ = heard[0].split(b"\r\n")
    assert first == b"PATCH /a%20b?c=d%2Fe HTTP/1.1"
    assert heard[0].endswith(b'\r\n\r\n{"a": 1}') and b"\r\nx-a: b\r\n" in heard[0].lower()


@pytest.mark.parametrize("serve", [silent, hangs_up], ids=["silent", "hangs up"])
def test_what_goes_wrong_is_the_error_of_httpx2_s_own_transport(serve: Serve) -> None:
    with pytest.raises(httpx2.HTTPError) as others:
        asked(serve, ours=False)
    with pytest.raises(httpx2.HTTPError) as ours:
        asked(serve)
    assert type(ours.value) is type(others.value)


def test_a_server_that_is_not_there_is_a_connect_error() -> None:
    async def nobody() -> None:
        async with httpx2.AsyncClient(transport=AiohttpTransport(ssl.create_default_context())) as client:
            await client.get("http://127.0.0.1:1/")

    with pytest.raises(httpx2.ConnectError):
        asyncio.run(nobody())
