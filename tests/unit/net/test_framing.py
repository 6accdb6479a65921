"""Frames over a real socket pair: whole, in order, bounded, and one clear end."""

import contextlib
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from flamestream.loop.reactor import EpollReactor
from flamestream.net.framing import FrameConnection
from flamestream.net.tls import LinkKey
from support import loops

MAX = 1 << 20


class End:
    """One side, and what it has seen."""

    def __init__(self, loop: EpollReactor, sock: socket.socket, max_unsent: int = 64 << 20) -> None:
        self.frames: list[bytes] = []
        self.batches: list[int] = []
        self.closed: list[str] = []
        self.connection = FrameConnection(loop, sock, MAX, self._received, self.closed.append, max_unsent)

    def _received(self, frames: list[bytes]) -> None:
        assert not self.closed, "a frame behind the end"
        self.frames += frames
        self.batches.append(len(frames))


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_frames_of_all_sizes_arrive_whole_and_in_order(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left, right = End(loop, sockets[0]), End(loop, sockets[1])
    chance = random.Random(7)
    sizes = [0, 1, MAX, *(chance.choice((3, 50, 5_000, 70_000, 300_000)) for _ in range(200))]
    sent = [chance.randbytes(size) for size in sizes]
    for frame in sent:
        left.connection.send(frame)
    loops.turn_until(loop, lambda: len(right.frames) == len(sent), "every frame")
    assert right.frames == sent


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7])
def test_frames_cut_anywhere_by_the_network_are_joined(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket], piece: int
) -> None:
    right = End(loop, sockets[1])
    sent = [b"", b"a", b"hello", b"x" * 40]
    stream = b"".join(struct.pack(">I", len(frame)) + frame for frame in sent)
    for start in range(0, len(stream), piece):
        sockets[0].send(stream[start : start + piece])
        loop.turn()
    loops.turn_until(loop, lambda: len(right.frames) == len(sent), "every frame")
    assert right.frames == sent


@pytest.mark.parametrize("waiting", [0, 4], ids=["nothing waits", "much waits"])
def test_what_the_peer_said_before_it_closed_is_heard_by_who_finds_that_out_as_it_sends(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket], waiting: int
) -> None:
    right = End(loop, sockets[1])
    for _ in range(waiting):
        right.connection.send(b"x" * MAX)
    sockets[0].send(struct.pack(">I", 8) + b"farewell")
    sockets[0].close()
    right.connection.send(b"too late")
    loops.turn_until(loop, lambda: right.closed, "the end")
    assert right.frames == [b"farewell"] and len(right.closed) == 1


def test_frames_that_wait_together_come_as_one_list(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left, right = End(loop, sockets[0]), End(loop, sockets[1])
    for _ in range(100):
        left.connection.send(b"frame")
    loops.turn_until(loop, lambda: right.frames, "frames")
    assert right.batches == [100]


def test_frames_before_the_end_come_before_it(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left, right = End(loop, sockets[0]), End(loop, sockets[1])
    left.connection.send(b"last words")
    left.connection.close()
    loops.turn_until(loop, lambda: right.closed, "the end")
    assert right.frames == [b"last words"]
    assert right.closed == ["closed by the peer"]
    assert left.closed == []


def test_an_end_in_the_middle_of_a_frame_says_so(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    right = End(loop, sockets[1])
    sockets[0].send(b"\0\0\0\x09half")
    sockets[0].close()
    loops.turn_until(loop, lambda: right.closed, "the end")
    assert right.closed == ["closed by the peer in the middle of a frame"]
    assert right.frames == []


def test_an_oversized_frame_ends_the_connection_behind_the_good_ones(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    right = End(loop, sockets[1])
    sockets[0].send(b"\0\0\0\x04good" + struct.pack(">I", MAX + 1))
    loops.turn_until(loop, lambda: right.closed, "the end")
    assert right.frames == [b"good"]
    assert right.closed == [f"a frame of {MAX + 1} bytes, more than the limit of {MAX}"]


def test_a_peer_that_does_not_read_costs_its_connection_and_not_memory(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left = End(loop, sockets[0], max_unsent=1 << 20)
    for _ in range(200):
        left.connection.send(bytes(100_000))
    assert left.closed == [], "never told from within send"
    loops.turn_until(loop, lambda: left.closed, "the end")
    assert left.closed[0].startswith("the peer does not read: ")


def test_a_frame_does_not_overtake_what_is_buffered(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left = End(loop, sockets[0])
    sent = [bytes([number]) * 300_000 for number in range(10)]
    for frame in sent:
        left.connection.send(frame)
    taken = sockets[1].recv(50_000)  # the kernel has room again, and the loop has not turned
    left.connection.send(b"last")
    left_over = bytearray(taken)
    whole = b"".join(struct.pack(">I", len(frame)) + frame for frame in [*sent, b"last"])
    sockets[1].setblocking(False)

    def drained() -> bool:
        with contextlib.suppress(BlockingIOError):
            left_over.extend(sockets[1].recv(1 << 20))
        return len(left_over) >= len(whole)

    loops.turn_until(loop, drained, "every byte")
    assert left_over == whole


def test_nothing_is_told_behind_close(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left = End(loop, sockets[0])
    sockets[1].close()
    left.connection.send(b"into the void")
    left.connection.close()
    loop.soon(lambda: None)
    loop.turn()
    assert left.closed == []


def test_a_broken_connection_is_told_once_and_sending_on_is_harmless(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left = End(loop, sockets[0])
    sockets[1].close()
    for _ in range(3):
        left.connection.send(b"into the void")
    loops.turn_until(loop, lambda: left.closed, "the end")
    loop.soon(lambda: None)
    loop.turn()
    assert len(left.closed) == 1


def test_finish_sends_what_is_buffered(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left = End(loop, sockets[0])
    left.connection.send(bytes(MAX))
    left.connection.send(b"tail")

    def read_all() -> int:
        size = 0
        while part := sockets[1].recv(1 << 16):
            size += len(part)
        sockets[1].shutdown(socket.SHUT_WR)
        return size

    sizes: list[object] = []
    loop.background(read_all, sizes.append)
    left.connection.finish(20.0)
    loops.turn_until(loop, lambda: sizes, "the reader's end")
    assert sizes == [4 + MAX + 4 + 4]


def test_finish_waits_for_a_peer_that_reads_late_although_something_it_said_was_not_read(
    loop: EpollReactor,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # most of what is sent waits in the sender's kernel
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        left = End(loop, near)
        far.sendall(b"unread")
        left.connection.send(bytes(100_000))
        ended: list[object] = []
        loop.background(lambda: left.connection.finish(20.0), ended.append)
        size = 0
        while part := far.recv(1 << 16):
            size += len(part)
        far.close()
        loops.turn_until(loop, lambda: ended, "the end")
    assert ended == [None]
    assert size == 4 + 100_000


# --- through TLS --------------------------------------------------------------------------------------------

KEY = LinkKey(b"key")


def secured(loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]) -> tuple[End, End]:
    """Both ends, proved."""
    left, right = End(loop, sockets[0]), End(loop, sockets[1])
    proved: list[End] = []
    left.connection.secure(KEY.dialling(b"test"), lambda: proved.append(left))
    right.connection.secure(KEY.accepting(b"test"), lambda: proved.append(right))
    loops.turn_until(loop, lambda: len(proved) == 2, "the handshake")
    return left, right


def test_frames_of_all_sizes_arrive_through_tls_both_ways(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left, right = secured(loop, sockets)
    chance = random.Random(7)
    sizes = [0, 1, MAX, *(chance.choice((3, 50, 5_000, 16_384, 70_000, 300_000)) for _ in range(100))]
    sent = [chance.randbytes(size) for size in sizes]
    for frame in sent:
        left.connection.send(frame)
        right.connection.send(frame)
    loops.turn_until(loop, lambda: len(right.frames) == len(left.frames) == len(sent), "every frame")
    assert left.frames == right.frames == sent


def test_what_came_in_the_clear_never_passes_for_what_tls_brought(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    right = End(loop, sockets[1])
    sockets[0].send(b"\0\0\0\x05hello\0\0\0\x09the beginn")
    loops.turn_until(loop, lambda: right.frames, "a frame in the clear")
    right.connection.secure(KEY.accepting(b"test"), lambda: pytest.fail("nobody has proved anything"))
    loops.turn_until(loop, lambda: right.closed, "the end")
    assert right.closed == ["it sent more than the handshake asks for"]


def test_what_came_before_a_damaged_record_is_heard_and_may_be_answered(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    left, right = secured(loop, sockets)
    assert left.connection._tls is not None
    heard: list[bytes] = []

    def answer(frames: list[bytes]) -> None:
        heard.extend(frames)
        right.connection.send(b"answer")

    right.connection.handle(answer, right.closed.append, MAX)
    good, damaged = (left.connection._tls.sealed([b"\0\0\0\x04good"]) for _ in range(2))
    sockets[0].send(good + damaged[:-1] + bytes([damaged[-1] ^ 1]))
    loops.turn_until(loop, lambda: right.closed, "the end")
    assert heard == [b"good"]
    assert right.closed == ["TLS: DECRYPTION_FAILED_OR_BAD_RECORD_MAC"]


def test_a_proof_with_damage_behind_it_is_none(
    loop: EpollReactor, sockets: tuple[socket.socket, socket.socket]
) -> None:
    """Else the owner would get a connection that is over, and take it for a link that broke."""
    right = End(loop, sockets[1])
    right.connection.secure(KEY.accepting(b"test"), lambda: pytest.fail("handed over"))
    dialler = KEY.dialling(b"test")
    sockets[0].send(dialler.to_send())
    while not dialler.proved:
        loop.turn()
        dialler.received(memoryview(sockets[0].recv(1 << 16)))
    sockets[0].send(dialler.to_send() + b"\x17\3\3\0\x20" + bytes(32))
    loops.turn_until(loop, lambda: right.closed, "the end")
    assert right.closed == ["TLS: DECRYPTION_FAILED_OR_BAD_RECORD_MAC"]
