"""Time as the coordinator lived it."""

from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.model.time import Instant


def at(deadlines: Deadlines, reading: int, due: int) -> bool:
    """A step at `reading` that waits for `due` (in lived time)."""
    deadlines.advance(Instant(reading))
    done = deadlines.due(Instant(due))
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
    assert any(at(deadlines, reading, 1_500) for reading in range(1_000, 60_000, 10_000))


def test_the_alarm_is_on_the_shells_clock_and_set_once() -> None:
    deadlines = Deadlines(tolerance_us=100)
    deadlines.advance(Instant(1_000_000))
    deadlines.due(Instant(1_000_500))
    assert deadlines.alarm() == 1_000_500
    deadlines.advance(Instant(1_000_100))
    deadlines.due(Instant(1_000_500))
    assert deadlines.alarm() is None  # the shell has it
    deadlines.due(Instant(1_000_200))
    assert deadlines.alarm() == 1_000_200
    deadlines.advance(Instant(1_000_200))
    deadlines.due(Instant(1_000_500))
    assert deadlines.alarm() == 1_000_500
