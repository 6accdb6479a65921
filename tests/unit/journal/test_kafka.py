"""The journal in a topic, on partitions in memory that lose answers, repeat late and are compacted: what was
reported counts for ever.

The same schedules show what each of its rules is for: without it they end in an entry that was reported or
counted, and is not there.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flamestream.journal.batches import Batch, encoded
from flamestream.journal.kafka import Row, TopicPlace, TopicWriter, _Keys, everything
from flamestream.model.errors import Fenced
from flamestream.model.ids import Attempt
from flamestream.model.time import START, Time
from support.journals.topic import JOB, Attempts, Here
from support.journals.worker import FRONT, entry


def behind_the_seal(attempts: Attempts) -> None:
    zombie = attempts.seal()
    zombie.append(10)
    attempts.seal()
    assert isinstance(zombie.append(20), Fenced)
    attempts.seal()


def behind_a_seal_that_is_gone(attempts: Attempts) -> None:
    """It writes behind the second seal and is suspended; the third attempt has everything trimmed and cleaned
    before it looks."""
    zombie = attempts.seal()
    attempts.seal()
    partitions = attempts.partitions
    reads = partitions.read

    def late(partition: int, start: int | None, beyond: int) -> tuple[list[Row], int]:
        partitions.read = reads  # type: ignore[method-assign]
        for time in (30, 40):
            heir = attempts.seal()
            heir.append(time)
            attempts.cut = time
            heir.writer.trim(Time(time))
            heir.writer.trim(Time(time))
            partitions.compact(tombstones=True)
        return partitions.read(partition, start, beyond)

    partitions.read = late  # type: ignore[method-assign]
    assert isinstance(zombie.append(20), Fenced)
    attempts.seal()


def test_a_zombie_behind_the_seal_reports_nothing(attempts: Attempts) -> None:
    behind_the_seal(attempts)


def test_a_zombie_that_looks_when_the_seal_is_gone_sees_a_newer_one(attempts: Attempts) -> None:
    behind_a_seal_that_is_gone(attempts)


def test_without_a_look_at_the_gap_a_zombie_would_report_what_does_not_count(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopicWriter, "_follows", lambda self, answer: True)
    with pytest.raises(AssertionError):
        behind_the_seal(attempts)
    assert attempts.reported == [10, 20]
    with pytest.raises(AssertionError, match="what was reported counts"):
        attempts.seal()


def test_a_look_at_the_gap_alone_would_not_do(attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> None:
    look = TopicWriter._look

    def gap_alone(self: TopicWriter, start: int, key: bytes, at: int) -> int:
        partitions = attempts.partitions
        whole = partitions.read

        def cut_off(partition: int, start: int | None, beyond: int) -> tuple[list[Row], int]:
            return [row for row in whole(partition, start, beyond)[0] if row.offset <= at], at + 1

        partitions.read = cut_off  # type: ignore[method-assign]
        try:
            return look(self, start, key, at)
        finally:
            partitions.read = whole  # type: ignore[method-assign]

    def through(self: TopicWriter, start: int, key: bytes, at: int) -> int:
        attempts.partitions.read(3, None, -1)  # where the heirs come in
        return gap_alone(self, start, key, at)

    monkeypatch.setattr(TopicWriter, "_look", through)
    with pytest.raises(AssertionError):
        behind_a_seal_that_is_gone(attempts)


def test_a_seal_of_an_older_attempt_behind_a_newer_one_is_refused(attempts: Attempts) -> None:
    attempts.seal()
    attempts.seal()
    reactor: Any = Here()
    with pytest.raises(Fenced, match="attempt 2"):
        TopicPlace(attempts.partitions, JOB, reactor, reactor).seal(FRONT, Attempt(1), START)
    attempts.seal()


def an_answer_is_lost_and_the_batch_repeated_behind_a_seal(attempts: Attempts) -> None:
    zombie = attempts.seal()
    zombie.lose_the_answer(10, lands=True)
    attempts.seal()
    assert attempts.counted == [10]
    assert isinstance(zombie.again(), Fenced)
    attempts.partitions.compact()
    attempts.seal()


def a_seal_is_repeated(attempts: Attempts) -> None:
    zombie = attempts.seal()
    attempts.seal()
    zombie.append(10)
    attempts.writers.pop()
    attempts.seal()  # the answer to attempt 2's first try was lost
    attempts.partitions.compact()
    attempts.seal()


@pytest.mark.parametrize(
    "schedule", [an_answer_is_lost_and_the_batch_repeated_behind_a_seal, a_seal_is_repeated]
)
def test_what_is_tried_twice_counts_as_it_did_before_a_compaction(
    attempts: Attempts, schedule: Callable[[Attempts], None]
) -> None:
    schedule(attempts)


@pytest.mark.parametrize(
    "schedule", [an_answer_is_lost_and_the_batch_repeated_behind_a_seal, a_seal_is_repeated]
)
def test_with_one_key_for_all_tries_a_compaction_would_change_what_counts(
    attempts: Attempts, schedule: Callable[[Attempts], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _Keys, "next", lambda self, kind: f"{self.job}/{self.front}/{kind}/{self.attempt:08d}/1-1".encode()
    )
    with pytest.raises(AssertionError, match=r"what counted once|only the newest"):
        schedule(attempts)


def test_an_answer_that_is_lost_counts_once(attempts: Attempts) -> None:
    writer = attempts.seal()
    writer.lose_the_answer(10, lands=True)
    assert writer.again() is None
    late = writer.lose_the_answer(20, lands=False)
    assert writer.again() is None
    assert writer.append(30) is None
    late()  # the first try arrives behind what followed it
    assert [each.time for each in everything(attempts.partitions, JOB, FRONT)] == [10, 20, 30]
    attempts.seal()


def test_a_record_whose_offset_is_not_known_is_looked_for(attempts: Attempts) -> None:
    writer = attempts.seal()
    land = attempts.partitions.land

    def landed(
        key: bytes, value: bytes | None, told: Callable[[int | Exception], None] = lambda _: None
    ) -> None:
        land(key, value)
        told(-1)

    attempts.partitions.land = landed  # type: ignore[method-assign]
    assert writer.append(10) is None
    assert attempts.reported == [10]


def test_a_record_whose_offset_is_not_known_and_that_is_not_there_is_written_again(
    attempts: Attempts,
) -> None:
    writer = attempts.seal()
    land = attempts.partitions.land
    attempts.partitions.land = lambda key, value, told=lambda _: None: told(-1)  # type: ignore[method-assign]
    assert isinstance(writer.append(10), OSError)
    attempts.partitions.land = land  # type: ignore[method-assign]
    writer.unanswered = Batch(1, START, Time(10), encoded([entry(10)]))
    assert writer.again() is None
    attempts.seal()


def test_one_look_at_what_others_have_written_is_enough(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = attempts.seal()
    attempts.partitions.land(b"index/3/batch/00000001/late-1", b"not looked into")
    writer.append(10)
    monkeypatch.setattr(attempts.partitions, "read", None)
    assert [writer.append(20), writer.append(30)] == [None, None]


STEPS = ["seal", "append", "append", "zombie", "lost", "late", "again", "trim", "compact", "clean"]


def any_schedule(attempts: Attempts, steps: list[tuple[str, int]]) -> None:
    late: list[Callable[[], None]] = []
    for clock, (step, number) in enumerate([("seal", 0), *steps, ("seal", 0)], 1):
        writers = attempts.writers
        busy = bool(writers) and (writers[-1].unanswered is not None or writers[-1].fenced)
        if step == "seal":
            attempts.seal()
        elif step == "append" and not busy:
            assert writers[-1].append(clock) is None
        elif step == "again" and writers[-1].unanswered is not None:
            assert writers[-1].again() is None
        elif step == "zombie" and len(writers) > 1:
            zombie = writers[number % (len(writers) - 1)]
            if not zombie.fenced:
                answer = zombie.append(clock) if zombie.unanswered is None else zombie.again()
                assert isinstance(answer, Fenced)
        elif step == "lost" and not busy:
            late.append(writers[-1].lose_the_answer(clock, lands=bool(number % 2)))
            if number % 2:
                late.pop()
        elif step == "late" and late:
            late.pop(number % len(late))()
        elif step == "trim" and not busy and attempts.reported:
            attempts.cut = max(attempts.cut, random.Random(number).choice(attempts.reported))
            attempts.partitions.lossy = random.Random(number) if number % 2 else None
            # a zombie may trim what is committed
            writers[number % len(writers)].writer.trim(Time(attempts.cut))
        elif step in ("compact", "clean"):
            end = attempts.partitions.end
            swapped = number % end
            attempts.partitions.compact(
                tombstones=step == "clean", looked=swapped + number // end % (end - swapped), swapped=swapped
            )


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 10**6)), max_size=50))
def test_in_any_schedule_what_was_reported_counts_for_ever_and_a_zombie_reports_nothing(
    steps: list[tuple[str, int]],
) -> None:
    any_schedule(Attempts(), steps)


def all_schedules() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        any_schedule(Attempts(), [(rng.choice(STEPS), rng.randrange(10**6)) for _ in range(40)])


def test_the_schedules_find_a_journal_that_does_not_look_at_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicWriter, "_follows", lambda self, answer: True)
    with pytest.raises(AssertionError):
        all_schedules()
