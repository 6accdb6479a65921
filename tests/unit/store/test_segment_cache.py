"""Own segments in memory: the newest, bounded, and whoever adds beside whom."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from flamestream.store.segment_cache import SegmentCache


def table(size: int) -> pa.Table:
    """Of so many bytes."""
    return pa.table({"a": pa.array([0] * size, pa.uint8())})


def test_the_oldest_go_when_there_is_no_room() -> None:
    kept = SegmentCache(10)
    tables = {name: table(4) for name in "abc"}
    for name, its in tables.items():
        kept.add(name, its)
    assert [kept.get(name) for name in "abc"] == [None, tables["b"], tables["c"]]


def test_what_is_removed_or_written_again_gives_its_room_back() -> None:
    kept = SegmentCache(10)
    for name, size in (("a", 6), ("a", 2), ("b", 8)):
        kept.add(name, table(size))
    assert (kept.get("a"), kept.get("b")) == (table(2), table(8))
    kept.remove("b")
    kept.remove("b")
    kept.add("c", table(8))
    assert (kept.get("a"), kept.get("c")) == (table(2), table(8))


def test_one_that_is_greater_than_all_the_room_costs_the_others_nothing() -> None:
    kept = SegmentCache(10)
    kept.add("a", table(2))
    kept.add("b", table(11))
    assert (kept.get("a"), kept.get("b")) == (table(2), None)


def test_two_uploads_at_once_keep_the_count() -> None:
    """Of two fences: the older one's upload still puts while the newer one's runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        kept = SegmentCache(50)
        tables = [table(size) for size in range(20)]

        def upload(writer: int) -> None:
            for number in range(3000):
                kept.add(f"{writer}-{number}", tables[number % 20])
                kept.remove(f"{writer}-{number - 2}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(upload, range(4)))
    finally:
        sys.setswitchinterval(before)
    for number in range(50):
        kept.add(f"new-{number}", table(1))
    assert all(kept.get(f"new-{number}") == table(1) for number in range(50))
