"""Own segments in memory: the newest, bounded, and whoever adds beside whom."""

import sys
from concurrent.futures import ThreadPoolExecutor

from flamestream.adapters.kept import Kept


def test_the_oldest_go_when_there_is_no_room() -> None:
    kept = Kept(10)
    for name in "abc":
        kept.add(name, name.encode() * 4)
    assert [kept.get(name) for name in "abc"] == [None, b"bbbb", b"cccc"]


def test_what_is_removed_or_written_again_gives_its_room_back() -> None:
    kept = Kept(10)
    kept.add("a", b"xxxxxx")
    kept.add("a", b"yy")
    kept.add("b", b"xxxxxxxx")
    assert (kept.get("a"), kept.get("b")) == (b"yy", b"xxxxxxxx")
    kept.remove("b")
    kept.remove("b")
    kept.add("c", b"zzzzzzzz")
    assert (kept.get("a"), kept.get("c")) == (b"yy", b"zzzzzzzz")


def test_one_that_is_greater_than_all_the_room_costs_the_others_nothing() -> None:
    kept = Kept(10)
    kept.add("a", b"xx")
    kept.add("b", b"x" * 11)
    assert (kept.get("a"), kept.get("b")) == (b"xx", None)


def test_two_uploads_at_once_keep_the_count() -> None:
    """Of two fences: the older one's upload still puts while the newer one's runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        kept = Kept(50)

        def upload(writer: int) -> None:
            for number in range(3000):
                kept.add(f"{writer}-{number}", b"x" * (number % 20))
                kept.remove(f"{writer}-{number - 2}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(upload, range(4)))
    finally:
        sys.setswitchinterval(before)
    for number in range(50):
        kept.add(f"new-{number}", b"y")
    assert all(kept.get(f"new-{number}") == b"y" for number in range(50))
