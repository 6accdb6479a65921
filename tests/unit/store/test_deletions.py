"""What leaves the store: gathered, held, bounded."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream.loop.background import Queue
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import StoreUnavailable
from flamestream.store import deletions as module
from flamestream.store.deletions import Deletions
from flamestream.store.folder import LocalStore
from support.loops import reactor, turn_until

NAMES = [f"job/{number}" for number in range(6)]


class Counted(LocalStore):
    """A store that knows what it was asked to remove, by request."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[tuple[str, ...]] = []
        self.away = False

    def delete(self, *names: str) -> None:
        self.asked.append(names)
        if self.away:
            raise StoreUnavailable("the store is away")
        super().delete(*names)


@pytest.fixture
def store(tmp_path: Path) -> Counted:
    made = Counted(tmp_path)
    for name in NAMES:
        made.put_new(name, b"x")
    return made


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


@pytest.fixture
def deletions(store: Counted, loop: EpollReactor, monkeypatch: pytest.MonkeyPatch) -> Deletions:
    monkeypatch.setattr(module, "GATHER", 0.01)
    return Deletions(store, loop, Queue(loop), failed)


def failed(problem: Exception) -> None:
    raise problem


def test_what_comes_within_a_moment_is_one_request(
    deletions: Deletions, store: Counted, loop: EpollReactor
) -> None:
    for name in NAMES[:3]:
        deletions.add([name])
    assert store.asked == []
    turn_until(loop, lambda: store.names("") == NAMES[3:], "three are gone")
    deletions.add(NAMES[3:])
    turn_until(loop, lambda: store.names("") == [], "all are gone")
    assert store.asked == [tuple(NAMES[:3]), tuple(NAMES[3:])]


def test_while_a_snapshot_is_copied_nothing_goes_and_then_all_of_it(
    deletions: Deletions, store: Counted, loop: EpollReactor
) -> None:
    deletions.add(NAMES[:1])
    deletions.hold(True)
    deletions.add(NAMES[1:])
    passed = []
    loop.later(0.1, lambda: passed.append(True))
    turn_until(loop, lambda: passed, "ten times as long as it would have taken")
    deletions.flush()
    assert store.names("") == NAMES
    deletions.hold(False)
    turn_until(loop, lambda: store.names("") == [], "all are gone")


def test_a_job_that_ends_does_not_wait(
    deletions: Deletions, store: Counted, loop: EpollReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHER", 3600)
    deletions.add(NAMES)
    deletions.flush()
    turn_until(loop, lambda: store.names("") == [], "all are gone")


def test_what_the_store_does_not_take_is_left_and_named(
    deletions: Deletions, store: Counted, loop: EpollReactor, caplog: pytest.LogCaptureFixture
) -> None:
    store.away = True
    deletions.add(NAMES[:2])
    turn_until(loop, lambda: caplog.records, "a warning")
    assert caplog.records[0].names == NAMES[:2]  # type: ignore[attr-defined]  # it is extra
    store.away = False
    deletions.add(NAMES[2:])
    turn_until(loop, lambda: store.names("") == NAMES[:2], "those behind it are gone")


def test_no_more_wait_than_there_is_room_for(
    deletions: Deletions, store: Counted, loop: EpollReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    deletions.add(NAMES)
    turn_until(loop, lambda: store.names("") == NAMES[2:], "two are gone")


def test_requests_go_one_after_the_other(store: Counted, loop: EpollReactor) -> None:
    """The loop is not held up by a store that is slow."""
    go_on = threading.Event()
    begun: list[Callable[[], Any]] = []

    def slow(*names: str) -> None:
        begun.append(slow)
        assert go_on.wait(30)

    store.delete = slow  # type: ignore[method-assign]
    made = Deletions(store, loop, Queue(loop), failed)
    for name in NAMES:
        made.add([name])
        made.flush()
    turn_until(loop, lambda: begun, "the first is under way")
    assert len(begun) == 1
    go_on.set()
    turn_until(loop, lambda: len(begun) == len(NAMES), "all were made")
