"""The loop: order, wake-ups, timers, helper threads, and that no exception is lost."""

import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from flamestream.loop import background
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import Bug
from support import loops


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    with left, right:
        yield left, right


def test_the_pass_is_called_once_behind_all_callbacks_of_a_turn(loop: EpollReactor) -> None:
    seen: list[str] = []
    loop.soon(lambda: seen.append("a"))
    loop.soon(lambda: seen.append("b"))

    def pass_() -> None:
        seen.append("pass")
        loop.stop()

    loop.run(pass_)
    assert seen == ["a", "b", "pass"]


def test_a_call_made_by_a_call_waits_for_the_next_turn(loop: EpollReactor) -> None:
    seen: list[int] = []

    def again() -> None:
        seen.append(len(seen))
        loop.soon(again)

    loop.soon(again)
    loop.turn()
    assert seen == [0]


def test_a_readable_socket_is_called_back_until_it_is_unwatched(
    loop: EpollReactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    seen: list[bytes] = []
    loop.watch(pair[0].fileno(), readable=lambda: seen.append(pair[0].recv(1)))
    pair[1].send(b"abc")
    loop.turn()
    loop.turn()
    loop.unwatch(pair[0].fileno())
    loop.soon(lambda: None)
    loop.turn()
    assert seen == [b"a", b"b"]


def test_a_watch_replaces_the_one_before(
    loop: EpollReactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    seen: list[str] = []
    loop.watch(pair[0].fileno(), readable=lambda: seen.append("read"))
    loop.watch(pair[0].fileno(), writable=lambda: seen.append("write"))
    pair[1].send(b"x")
    loop.turn()
    assert seen == ["write"]


def test_a_callback_unwatched_in_the_same_turn_is_not_called(
    loop: EpollReactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    seen: list[str] = []
    left, right = pair

    def first(mine: str, other: int) -> None:
        seen.append(mine)
        loop.unwatch(other)

    loop.watch(left.fileno(), readable=lambda: first("left", right.fileno()))
    loop.watch(right.fileno(), readable=lambda: first("right", left.fileno()))
    left.send(b"x")
    right.send(b"x")
    loop.turn()
    assert len(seen) == 1


def test_the_end_of_the_peer_makes_a_socket_readable(
    loop: EpollReactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    seen: list[bytes] = []
    loop.watch(pair[0].fileno(), readable=lambda: seen.append(pair[0].recv(1)))
    pair[1].close()
    loop.turn()
    assert seen == [b""]


def test_unwatching_an_unknown_file_is_harmless(loop: EpollReactor) -> None:
    loop.unwatch(987)


def test_timers_run_in_the_order_of_their_deadlines(loop: EpollReactor) -> None:
    seen: list[str] = []
    loop.later(0.02, lambda: seen.append("second"))
    loop.later(0.0, lambda: seen.append("first"))
    loop.later(0.04, lambda: seen.append("third"))
    loops.turn_until(loop, lambda: len(seen) == 3, "three timers")
    assert seen == ["first", "second", "third"]


def test_a_cancelled_timer_is_not_called_and_cancelling_twice_is_harmless(loop: EpollReactor) -> None:
    seen: list[str] = []
    timer = loop.later(0.0, lambda: seen.append("never"))
    timer.cancel()
    timer.cancel()
    loop.later(0.01, lambda: seen.append("later"))
    loops.turn_until(loop, lambda: seen, "the later timer")
    assert seen == ["later"]


def test_cancelled_timers_do_not_pile_up(loop: EpollReactor) -> None:
    kept = loop.later(3600, lambda: None)
    for _ in range(10_000):
        loop.later(3600, lambda: None).cancel()
    assert len(loop._timers) < 200
    assert any(entry[2] is kept for entry in loop._timers)


def test_an_exception_of_a_callback_ends_the_loop(loop: EpollReactor) -> None:
    def broken() -> None:
        raise Bug("seen")

    loop.soon(broken)
    with pytest.raises(Bug, match="seen"):
        loop.run(lambda: None)


def test_a_call_from_another_thread_wakes_a_waiting_loop(loop: EpollReactor) -> None:
    other = threading.Thread(target=lambda: loop.soon(loop.stop))
    loop.soon(other.start)
    loop.run(lambda: None)
    other.join()


def test_no_call_from_other_threads_is_lost(loop: EpollReactor) -> None:
    seen = [0]

    def count() -> None:
        seen[0] += 1

    def many() -> None:
        for _ in range(2_000):
            loop.soon(count)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    while seen[0] < 8_000:
        loop.turn()  # blocks for ever if a wake-up is lost
    for thread in threads:
        thread.join()


def test_a_signal_handler_can_stop_a_waiting_loop(loop: EpollReactor) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: loop.stop())
    try:
        sender = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGUSR1))
        loop.soon(sender.start)
        loop.run(lambda: None)
        sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_background_work_runs_elsewhere_and_answers_here(loop: EpollReactor) -> None:
    answers: list[tuple[object, int]] = []
    loop.background(threading.get_ident, lambda result: answers.append((result, threading.get_ident())))
    loops.turn_until(loop, lambda: answers, "the answer")
    worked, answered = answers[0]
    assert worked != answered == threading.get_ident()


def test_an_exception_of_background_work_is_its_answer(loop: EpollReactor) -> None:
    answers: list[object] = []
    loop.background(lambda: 1 // 0, answers.append)
    loops.turn_until(loop, lambda: answers, "the answer")
    assert isinstance(answers[0], ZeroDivisionError)


def test_an_exit_in_background_work_ends_the_loop(loop: EpollReactor) -> None:
    def leave() -> None:
        raise SystemExit(3)

    loop.background(leave, lambda _: None)
    with pytest.raises(SystemExit):
        loop.run(lambda: None)


def test_background_work_is_bounded(loop: EpollReactor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_BACKGROUND", 3)
    gate = threading.Event()
    for _ in range(3):
        loop.background(gate.wait, lambda _: None)
    with pytest.raises(Bug, match="3 calls wait"):
        loop.background(gate.wait, lambda _: None)
    gate.set()
