"""Objects are fetched ahead in the order that was said, within bounds, and a failure there is nobody's."""

from threading import Event, Lock

import pytest

from flamestream.connectors.files.places import Found
from flamestream.connectors.files.s3_ahead import BYTES, OBJECTS, SMALL, Ahead


class Store:
    """Counts the requests that are under way; they end when they may."""

    def __init__(self, broken: frozenset[str] = frozenset()) -> None:
        self.asked: list[str] = []
        self.may_end = Event()
        self.may_end.set()
        self._lock, self._broken = Lock(), broken

    def __call__(self, file: Found) -> bytes:
        with self._lock:
            self.asked.append(file.path)
        self.may_end.wait(30)
        if file.path in self._broken:
            raise OSError("away")
        return bytes(file.size)


def objects(count: int, size: int = 10) -> list[Found]:
    return [Found(f"{n}", f"s3://b/{n}", size, "v") for n in range(count)]


def test_every_object_but_the_first_was_fetched_before_it_was_asked_for() -> None:
    store, files = Store(), objects(30)
    ahead = Ahead(store)
    ahead.expect(files)
    assert [ahead.take(file) for file in files] == [None] + [bytes(10)] * 29
    assert sorted(store.asked) == sorted(file.path for file in files[1:])


@pytest.mark.parametrize(
    ("size", "most"), [(10, OBJECTS), (SMALL, min(OBJECTS, BYTES // SMALL)), (SMALL + 1, 0)]
)
def test_no_more_is_under_way_than_the_bounds_say(size: int, most: int) -> None:
    store, files = Store(), objects(40, size)
    store.may_end.clear()
    ahead = Ahead(store)
    ahead.expect(files)
    assert ahead.take(files[0]) is None
    assert ahead.take(Found("other", "s3://b/other", 1, "v")) is None
    store.may_end.set()
    ahead.expect([])
    assert len(store.asked) <= most


def test_what_failed_or_was_passed_over_is_left_to_whoever_opens_it() -> None:
    store, files = Store(frozenset({"s3://b/1"})), objects(6)
    ahead = Ahead(store)
    ahead.expect(files)
    assert ahead.take(files[0]) is None and ahead.take(files[1]) is None
    assert ahead.take(files[4]) == bytes(10)
    assert ahead.take(files[3]) is None and ahead.take(files[4]) is None
