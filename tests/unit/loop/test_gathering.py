"""Clients' files are looked at together while there is a stream, and at once where there is none."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from flamestream.loop.gathering import EVERY, FEW, MOST, Gathering
from flamestream.loop.reactor import EpollReactor
from flamestream.model.time import Instant


class Loop(EpollReactor):
    """A loop whose time passes when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0
        self.due: list[float] = []

    def instant(self) -> Instant:
        return Instant(self.time)

    def later(self, seconds: float, call):  # type: ignore[no-untyped-def]
        self.due.append(seconds * 1e6)
        self.late = call


class World:
    """Clients of a gathering reactor, and a stream beside them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack, self.outer, self.passes, self.heard = stack, Loop(), 0, list[int]()
        stack.callback(self.outer.close)
        self.inner = Gathering(self.outer, lambda: self.passes)
        self.outer.time = EVERY

    def ask(self) -> None:
        """Another client asks, and is one file."""
        here, there = (self._stack.enter_context(each) for each in socket.socketpair())
        there.sendall(b"?")

        def read() -> None:
            here.recv(1)
            self.heard.append(here.fileno())

        self.inner.watch(here.fileno(), readable=read)

    def turn(self) -> int:
        """One turn of the loop; who was heard so far."""
        self.outer.soon(lambda: None)
        self.outer.turn()
        return len(self.heard)


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


def test_without_a_stream_each_is_heard_at_once(world: World) -> None:
    for number in range(1, 4):
        world.ask()
        assert world.turn() == number


def test_beside_a_stream_those_that_come_soon_behind_others_are_heard_together(world: World) -> None:
    world.ask()
    assert world.turn() == 1
    world.passes += FEW + 1
    world.outer.time += EVERY // 4
    world.ask()
    world.ask()
    assert world.turn() == 1
    assert world.outer.due == [EVERY - EVERY // 4]
    world.outer.late()
    assert world.turn() == 3


def test_meanwhile_they_do_not_wake_the_loop(world: World) -> None:
    """Else it would turn without end until they are heard."""
    world.ask()
    world.turn()
    world.passes += FEW + 1
    world.ask()
    world.turn()
    world.turn()
    assert len(world.outer.due) == 1


def test_a_look_is_at_a_bounded_number_of_them(world: World) -> None:
    for _ in range(MOST + 1):
        world.ask()
    assert world.turn() == MOST
    assert world.turn() == MOST + 1
