"""Time as the coordinator lived it."""

from flamestream.core.deadlines import Deadlines
from flamestream.model.time import Timestamp


def at(deadlines: Deadlines, wall: int, due: int) -> bool:
    """A step at `wall` that waits for `due` (in lived time)."""
    deadlines.advance(Timestamp(wall))
    done = deadlines.due(Timestamp(due))
    deadlines.alarm()
    return done


def test_a_deadline_is_due_at_its_time_and_not_before() -> None:
    deadlines = Deadlines(tolerance_us=100)
    assert not at(deadlines, 1_000, 1_500)
    assert not at(deadlines, 1_499, 1_500)
    assert at(deadlines, 1_500, 1_500)


def test_a_late_step_within_the_tolerance_is_just_late() -> None:
    deadlines = Deadlines(tolerance_us=100)
    at(deadlines, 1_000, 1_500)
    assert at(deadlines, 1_599, 1_500)
    assert deadlines.now == 1_599


def test_after_a_pause_what_is_waiting_is_heard_before_the_deadline() -> None:
    deadlines = Deadlines(tolerance_us=100)
    at(deadlines, 1_000, 1_500)
    assert not at(deadlines, 60_000, 1_500)
    assert at(deadlines, 60_100, 1_500)


def test_a_shell_that_always_wakes_late_gets_on() -> None:
    deadlines = Deadlines(tolerance_us=100)
    assert any(at(deadlines, wall, 1_500) for wall in range(1_000, 60_000, 10_000))


def test_a_clock_that_goes_back_stands_still_and_then_goes_on() -> None:
    deadlines = Deadlines(tolerance_us=100)
    at(deadlines, 1_000_000, 1_000_500)
    assert not at(deadlines, 1_000, 1_000_500)
    assert deadlines.now == 1_000_000
    assert not at(deadlines, 1_400, 1_000_500)
    assert at(deadlines, 1_500, 1_000_500)


def test_the_alarm_is_on_the_shells_clock_and_set_once() -> None:
    deadlines = Deadlines(tolerance_us=100)
    deadlines.advance(Timestamp(1_000_000))
    deadlines.due(Timestamp(1_000_500))
    assert deadlines.alarm() == 1_000_500
    deadlines.advance(Timestamp(1_000_100))
    deadlines.due(Timestamp(1_000_500))
    assert deadlines.alarm() is None  # the shell has it
    deadlines.due(Timestamp(1_000_200))
    assert deadlines.alarm() == 1_000_200
    deadlines.advance(Timestamp(2_000))
    deadlines.due(Timestamp(1_000_500))
    assert deadlines.alarm() == 2_400
