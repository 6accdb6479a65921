"""Who gives way at a port that anybody can reach, and what is logged of it."""

import logging
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.net.acceptor import Drops
from flamestream.net.admission import Admission, peer_of


@pytest.mark.parametrize("seed", range(50))
def test_whoever_has_fewer_guests_than_an_equal_share_always_finds_room(seed: int) -> None:
    """Whatever others do, and however busy they are."""
    chance = random.Random(seed)
    inside = Admission[int](12)
    peers: dict[int, str] = {}
    busy: set[int] = set()
    for guest in range(400):
        peer = chance.choice("aaaaaaab" if guest < 200 else "abc")
        share = 12 // 3
        if inside.full:
            other = inside.gives_way(peer, lambda one: one not in busy)
            many = Counter(peers[one] for one in inside)
            if other is None:
                assert many[peer] >= share, f"{peer} has {many[peer]} of {many} and finds no room"
                continue
            assert many[peers[other]] >= many[peer], "nobody is driven out by who has more"
            inside.leave(other)
        peers[guest] = peer
        inside.enter(guest, peer)
        if chance.random() < 0.7:
            busy.add(guest)
        assert len(list(inside)) <= 12


def test_of_one_address_the_one_that_was_served_longest_ago_gives_way() -> None:
    inside = Admission[str](2)
    inside.enter("first", "a")
    inside.enter("second", "a")
    inside.renew("first")
    assert inside.gives_way("a", lambda _: True) == "second"


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:0db8:0001:0002"),
        (("2001:db8:1:2::9", 5, 0, 0), "2001:0db8:0001:0002"),
        (("fe80::1%eth0", 5, 0, 2), "fe80:0000:0000:0000"),
        ("", ""),
        (None, ""),
    ],
)
def test_an_address_is_a_host_or_a_network_that_one_host_may_have_all_of(address: object, peer: str) -> None:
    assert peer_of(address) == peer


def test_a_flood_of_drops_is_counted_and_makes_a_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    due: list[Callable[[], None]] = []
    reactor: Any = SimpleNamespace(later=lambda seconds, call: due.append(call))
    drops = Drops(reactor)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            for _ in range(1000):
                drops.add("x" * 5000, ValueError("what was raised"))
            due.pop()()
        due.pop()()
        assert not due, "nothing was new for a second"
        drops.add("later")
    assert drops.count == 3001
    assert [record.__dict__["dropped"] for record in caplog.records] == [1, 1000, 2000, 3000, 3001]
    assert all(record.exc_info and len(record.__dict__["reason"]) == 1000 for record in caplog.records[:-1])
