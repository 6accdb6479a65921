"""The journal in a topic, on partitions in memory that lose answers, repeat late and are compacted: what was
reported counts for ever.

The same schedules show what each of its rules is for: without it they end in an entry that was reported or
counted, and is not there.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flamestream.journal.batches import Batch, Sealed, encoded
from flamestream.journal.kafka import Row, Told, TopicPlace, TopicWriter, _Keys, everything
from flamestream.journal.kafka_partitions import weakness
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import Attempt
from flamestream.model.time import START, Time
from support.journals.worker import FRONT, entry

JOB = "index"


class Partitions:
    """`journal_topic.Partitions` with one partition."""

    name, largest = "journal", 1000

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.end = 0
        self.held: list[Callable[[], None]] = []
        """Writes that are under way."""
        self.hold = False
        self.lossy: random.Random | None = None
        """Some trims do not arrive."""

    def ensure(self) -> None:
        pass

    def write(self, partition: int, key: bytes, value: bytes | None, told: Told) -> None:
        if value is None and self.lossy is not None and self.lossy.random() < 0.5:
            told(OSError("timed out"))
        elif self.hold:
            self.held.append(partial(self.land, key, value, told))
        else:
            self.land(key, value, told)

    def land(self, key: bytes, value: bytes | None, told: Told = lambda answer: None) -> None:
        self.rows.append(Row(self.end, key, value))
        self.end += 1
        told(self.end - 1)

    def read(self, partition: int, start: int | None, beyond: int) -> tuple[list[Row], int]:
        assert self.end > beyond
        return [row for row in self.rows if row.offset >= (start or 0)], self.end

    def compact(self, *, tombstones: bool = False, looked: int = 1 << 30, swapped: int = 1 << 30) -> None:
        """A cleaner has looked at records up to an offset, and has swapped in the cleaned segments up to
        another one.

        Of each key it saw the newest record stays, at its offset; with `tombstones`, those go too. The last
        record stays where it is.
        """
        newest = {row.key: row.offset for row in self.rows if row.offset <= looked}
        swapped = min(swapped, looked, self.end - 1)
        self.rows = [
            row
            for row in self.rows
            if row.offset >= swapped
            or (newest[row.key] == row.offset and not (tombstones and row.value is None))
        ]


class Here:
    """A reactor that does at once what it is asked."""

    def soon(self, call: Callable[[], None]) -> None:
        call()

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  # as helpers do
            result = error
        done(result)


@dataclass
class Attempts:
    """Attempts that seal one after another, and what each has written and was told."""

    partitions: Partitions = field(default_factory=Partitions)
    writers: list["One"] = field(default_factory=list)
    reported: list[int] = field(default_factory=list)
    counted: list[Time] = field(default_factory=list)
    """What the newest seal gave back."""
    newest: int = 0
    """The newest attempt that has sealed."""
    written: dict[int, int] = field(default_factory=dict)
    """By which attempt."""
    cut: int = 0

    def seal(self) -> "One":
        number = len(self.writers) + 1
        reactor: Any = Here()
        sealed = TopicPlace(self.partitions, JOB, reactor, reactor).seal(
            FRONT, Attempt(number), Time(self.cut)
        )
        times = [each.time for each in sealed.entries]
        assert {time for time in self.reported if time >= self.cut} <= set(times), "what was reported counts"
        before = [time for time in self.counted if time >= self.cut]
        assert times[: len(before)] == before, "what counted once counts for ever, and nothing is added to it"
        assert all(self.written[time] == self.newest for time in times[len(before) :]), (
            "only the newest attempt can add to it"
        )
        self.counted, self.newest = times, number
        self.writers.append(One(self, sealed))
        return self.writers[-1]


class One:
    """An attempt."""

    def __init__(self, all_: Attempts, sealed: Sealed) -> None:
        self._all, self.writer, self._attempt = all_, sealed.writer, all_.newest
        self._number, self._last = 0, sealed.last
        self.unanswered: Batch | None = None
        self.fenced = False

    def append(self, time: int) -> Exception | None:
        """None: it was reported, or nothing was said yet."""
        self._number += 1
        self._all.written[time] = self._attempt
        batch = Batch(self._number, self._last, Time(time), encoded([entry(time)]))
        self._last = batch.last
        return self.send(batch)

    def send(self, batch: Batch) -> Exception | None:
        answers: list[Exception | None] = []
        self.unanswered = batch

        def done(answer: Exception | None) -> None:
            self.unanswered = None
            answers.append(answer)
            if answer is None:
                self._all.reported.append(batch.last)
            self.fenced = self.fenced or isinstance(answer, Fenced)

        self.writer.send(batch, done)
        return answers[0] if answers else None

    def lose_the_answer(self, time: int, *, lands: bool) -> Callable[[], None]:
        """The record is under way when the client gives up; if it `lands`, then now, else when what is
        returned is called."""
        partitions = self._all.partitions
        partitions.hold = True
        self.append(time)
        partitions.hold = False
        (late,) = partitions.held
        partitions.held.clear()
        key, value, told = late.args  # type: ignore[attr-defined]
        land = partial(partitions.land, key, value)
        if lands:
            land()
        batch = self.unanswered
        told(OSError("timed out"))
        self.unanswered = batch
        return land

    def again(self) -> Exception | None:
        """What the journal does after a failure."""
        assert self.unanswered is not None
        return self.send(self.unanswered)


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


# --- a zombie -----------------------------------------------------------------------------------------------


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


# --- keys ---------------------------------------------------------------------------------------------------


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


# --- trims --------------------------------------------------------------------------------------------------


def test_a_trim_leaves_one_seal_and_the_newest_batch(attempts: Attempts) -> None:
    for time in (10, 20, 30):
        attempts.seal().append(time)
    attempts.cut = 40
    attempts.writers[-1].writer.trim(Time(40))
    with pytest.raises(Corrupt, match="missing"):
        everything(attempts.partitions, JOB, FRONT)
    attempts.partitions.compact(tombstones=True)
    attempts.partitions.land(b"index/3/batch/00000001/late-1", b"not looked into")
    left = [row.key.split(b"/")[2:4] for row in attempts.partitions.rows if row.value is not None]
    assert left == [[b"seal", b"00000003"], [b"batch", b"00000003"], [b"batch", b"00000001"]]
    with pytest.raises(Corrupt, match="missing"):
        everything(attempts.partitions, JOB, FRONT)
    attempts.seal()


def test_what_was_trimmed_is_not_trimmed_again(attempts: Attempts) -> None:
    writer = attempts.seal()
    for time in (10, 20, 30):
        writer.append(time)
    attempts.cut = 30
    writer.writer.trim(Time(30))
    heir = attempts.seal()
    heir.writer.trim(Time(30))
    assert [row.key.split(b"/")[2] for row in attempts.partitions.rows if row.value is None] == [
        b"batch",
        b"batch",
        b"seal",
    ]


def test_a_seal_stays_until_what_it_keeps_from_counting_is_gone(attempts: Attempts) -> None:
    zombie = attempts.seal()
    attempts.seal().append(10)
    zombie.append(20)
    heir = attempts.seal()
    attempts.cut = 10
    attempts.partitions.lossy = random.Random(1)
    while heir.writer._strays:  # type: ignore[attr-defined]
        assert len(heir.writer._seals) == 2  # type: ignore[attr-defined]
        heir.writer.trim(Time(10))
        attempts.partitions.compact()
        assert [each.time for each in everything(attempts.partitions, JOB, FRONT)] == [10]
    attempts.seal()


def test_a_batch_that_is_needed_and_gone_is_corrupt(attempts: Attempts) -> None:
    writer = attempts.seal()
    for time in (10, 20, 30):
        writer.append(time)
    del attempts.partitions.rows[2]
    with pytest.raises(Corrupt, match="up to 20"):
        attempts.seal()


def test_brokers_that_have_lost_acknowledged_records_are_found_out(attempts: Attempts) -> None:
    writer = attempts.seal()
    writer.append(10)
    attempts.partitions.rows.pop()
    attempts.partitions.end -= 1
    answer = writer.append(20)
    assert isinstance(answer, Corrupt) and "lost acknowledged records" in str(answer)


def test_a_topic_with_records_of_others_is_refused(attempts: Attempts) -> None:
    attempts.partitions.land(b"other-job/3/seal/00000001/x-1", b"sealed")
    with pytest.raises(UserError, match="other-job"):
        attempts.seal()


# --- any schedule -------------------------------------------------------------------------------------------

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


# --- a topic that may not be one ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "settings", "brokers", "words"),
    [
        ([3, 3], {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}, 3, ""),
        ([1, 1], {"cleanup.policy": "compact"}, 1, ""),
        ([1, 3], {"cleanup.policy": "compact"}, 3, "one replica"),
        ([3], {"cleanup.policy": "compact"}, 3, "1 partitions"),
        ([3, 3], {"cleanup.policy": "compact,delete"}, 3, "entries expire"),
        ([3, 3], {"cleanup.policy": "compact", "unclean.leader.election.enable": "true"}, 3, "may be lost"),
    ],
)
def test_a_topic_that_would_lose_entries_is_not_a_journal(
    replicas: list[int], settings: dict[str, str], brokers: int, words: str
) -> None:
    found = weakness(replicas, settings, 2, brokers)
    assert words in found and bool(words) == bool(found)
