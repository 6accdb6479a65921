"""The caller's end of its socket takes whole frames in their order, however they come, and reads no more while its
worker does not."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from flamestream.node.calls.link import Link, one_frame

FRAMES = [b"", b"one", b"x" * 300_000, b"last"]


def framed(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(frame)) + frame for frame in frames)


def linked(
    take: Callable[[bytes], None], use: Callable[[Link, socket.socket], Coroutine[Any, Any, None]]
) -> None:
    async def both() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        link = Link(take)
        with theirs:
            await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
            await use(link, theirs)

    asyncio.run(asyncio.wait_for(both(), 60))


@pytest.mark.parametrize("piece", [1, 3, 100_000, 1 << 20])
def test_frames_come_whole_whatever_pieces_they_come_in(piece: int) -> None:
    frames = FRAMES if piece > 3 else [b"", b"one", b"last"]
    taken, sent = list[bytes](), framed(frames)

    async def sends(link: Link, worker: socket.socket) -> None:
        for at in range(0, len(sent), piece):
            await asyncio.get_running_loop().sock_sendall(worker, sent[at : at + piece])
        worker.close()
        await link.ended

    linked(taken.append, sends)
    assert taken == frames


def test_frames_leave_whole() -> None:
    async def receives(link: Link, worker: socket.socket) -> None:
        for frame in FRAMES:
            link.send(frame)
        expected, got = framed(FRAMES), b""
        while len(got) < len(expected):
            got += await asyncio.get_running_loop().sock_recv(worker, 1 << 16)
        assert got == expected

    linked(lambda frame: None, receives)


def test_nothing_more_is_read_while_the_worker_does_not_read() -> None:
    taken = list[bytes]()

    async def stops_reading(link: Link, worker: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        link.send(b"x" * (4 << 20))  # more than a socket takes
        await loop.sock_sendall(worker, framed([b"asked"]))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not taken
        left = 4 + (4 << 20)
        while left:
            left -= len(await loop.sock_recv(worker, 1 << 20))
        while not taken:
            await asyncio.sleep(0)

    linked(taken.append, stops_reading)
    assert taken == [b"asked"]


def test_what_takes_frames_ends_it_by_raising() -> None:
    def raises(frame: bytes) -> None:
        raise ValueError("no request")

    async def sends(link: Link, worker: socket.socket) -> None:
        await asyncio.get_running_loop().sock_sendall(worker, framed([b"x"]))
        with pytest.raises(ValueError, match="no request"):
            await link.ended

    linked(raises, sends)


def test_the_first_frame_is_read_alone() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(framed([b"configuration", b"requests"]))
        assert one_frame(ours) == b"configuration"
        assert ours.recv(100) == framed([b"requests"])
        theirs.close()
        with pytest.raises(EOFError):
            one_frame(ours)
