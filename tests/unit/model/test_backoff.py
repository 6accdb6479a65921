"""Pauses grow, to an end, and keep their unit."""

from flamestream.model.backoff import Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    assert [Backoff(1.0, 5.0).after(failures) for failures in (1, 2, 3, 4, 5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_nothing_failed_nothing_is_waited_for() -> None:
    assert Backoff(1.0, 5.0).after(0) == 0


def test_whole_numbers_stay_whole() -> None:
    assert [repr(Backoff(50_000, 2_000_000).after(failures)) for failures in (0, 1, 3, 99)] == [
        "0",
        "50000",
        "200000",
        "2000000",
    ]


def test_failing_for_years_is_no_great_number() -> None:
    assert Backoff(0.5, 60.0).after(10**9) == 60.0
