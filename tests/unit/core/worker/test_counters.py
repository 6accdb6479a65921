"""What a worker counts for people."""

from flamestream.core.protocol.latency import BOUNDS
from flamestream.core.worker.counters import Counters
from flamestream.model.ids import SourceName
from flamestream.model.time import START, FrontId, Instant, Time, Timestamp, time_of


def at(milliseconds: int, front: int = 0) -> Time:
    return time_of(Timestamp(milliseconds * 1000), FrontId(front))


def clock(milliseconds: int) -> Timestamp:
    return Timestamp(milliseconds * 1000)


def test_a_run_is_timed_to_the_minimal_time_that_passes_it() -> None:
    counters = Counters(frozenset({FrontId(0)}))
    counters.entered(at(10), 3)
    counters.entered(at(20), 1)
    counters.released(at(15), 5, clock(14))
    told = counters.report(0, 0)
    assert (told["items_in"], told["items_out"], told["runs"], told["release_us"]) == (4, 5, 2, 4000)
    assert told["release"][BOUNDS.index(4)] == 1


def test_a_replay_ends_when_minimal_time_is_above_all_that_was_stamped_before() -> None:
    counters = Counters(frozenset())

    def took() -> int:
        return counters.report(0, 0)["replay_us"]

    counters.passed(at(99), Instant(1))
    assert took() == 0, "there is none"
    counters.replays(at(20), Instant(1_000))
    counters.passed(at(20), Instant(4_000))
    assert took() == 0
    for instant in (9_000, 10_000):
        counters.passed(at(21), Instant(instant))
        assert took() == 8_000
    counters.begin(0, 0, START, frozenset())
    counters.passed(at(30), Instant(11_000))
    assert took() == 0, "of the attempt before"


def test_a_run_that_is_replayed_although_it_was_released_is_not_timed_again() -> None:
    counters = Counters(frozenset({FrontId(0)}))
    counters.entered(at(10), 1)
    counters.entered(at(20), 1)
    counters.released(at(15), 0, clock(12))
    counters.begin(7, 2, START, frozenset({FrontId(0)}))
    counters.entered(at(10), 1)
    counters.entered(at(20), 1)
    counters.released(at(30), 0, clock(50))
    told = counters.report(1, 0)
    assert (sum(told["release"]), told["release_us"]) == (2, 32_000), (
        "the second run waited through the recovery"
    )
    assert (told["replayed"], told["invalidated"]) == (8, 2)


def test_a_source_with_times_of_its_own_is_not_timed() -> None:
    counters = Counters(frozenset())
    counters.entered(at(10), 1)
    counters.released(at(15), 1, clock(12))
    counters.acknowledged(at(10), 1, clock(13))
    told = counters.report(0, 0)
    assert (sum(told["release"]), sum(told["latency"])) == (0, 0)


def late(counters: Counters) -> tuple[dict[SourceName, int], dict[SourceName, int]]:
    told = counters.report(0, 0)
    return told["late"], told["late_since"]


def test_late_items_are_counted_once_it_is_certain_and_not_twice_in_a_recovery() -> None:
    counters, clicks, views = Counters(frozenset()), SourceName("clicks"), SourceName("views")
    counters.late(at(10), clicks, 2)
    counters.late(at(10), clicks, -1)
    counters.late(at(20), views, 3)
    assert late(counters) == ({}, {}), "they may be taken back"
    counters.released(at(15), 0, clock(16))
    assert late(counters) == ({}, {"clicks": 1})
    counters.committed(at(12))
    counters.released(at(30), 0, clock(31))
    assert late(counters) == ({"clicks": 1}, {"views": 3})
    counters.begin(0, 0, at(12), frozenset())
    assert late(counters) == ({"clicks": 1}, {}), "the other run is processed again, maybe elsewhere"
    counters.late(at(20), views, 2)
    assert late(counters) == ({"clicks": 1}, {"views": 2})


def test_when_something_was_given_is_said_once_to_each_coordinator() -> None:
    counters = Counters(frozenset())
    counters.acknowledged(at(1), 1, clock(5))
    counters.acknowledged(at(2), 0, clock(50))
    counters.acknowledged(at(3), 2, clock(107))
    first, second = counters.report(0, 0), counters.report(0, 0)
    assert (first["given"], first["bundles"], second["given"]) == ([(5000, 5000), (107_000, 107_000)], 3, [])
    counters.acknowledged(at(4), 1, clock(110))
    assert counters.report(0, 0)["given"] == [(107_000, 110_000)]
    counters.tell_anew()
    assert counters.report(0, 0)["given"] == [(5000, 5000), (107_000, 110_000)]
