"""The records of the three real-time jobs come from their number alone."""

from rtm.records import FURTHEST, MINUTE, REPEATED, Schedule, origin

MANY = range(20_000)


def test_one_record_in_five_is_an_older_one_again_that_is_no_repetition_itself() -> None:
    repeated = [number for number in MANY if origin(number) != number]
    assert len(repeated) == (len(MANY) - FURTHEST) // REPEATED
    assert all(origin(origin(number)) == origin(number) for number in repeated)
    assert all(1 <= number - origin(number) <= FURTHEST + 1 for number in repeated)


def test_a_repetition_has_the_bytes_of_the_first_and_is_due_at_its_own_place() -> None:
    schedule = Schedule(100.0, 1000.0)
    again = next(number for number in MANY if origin(number) != number)
    assert schedule.value(again) == schedule.value(origin(again))
    assert schedule.due(again) == 100.0 + again / 1000


def test_a_record_says_when_it_was_due() -> None:
    fields = Schedule(100.0, 1000.0).fields(1234)
    assert fields == {"id": "e1234", "user": "u234", "at": 101_234}
    assert fields["at"] // MINUTE == 1
