"""A topic in memory that loses answers, repeats late and is compacted; attempts that keep a journal in it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flamestream.journal.batches import Batch, Sealed, encoded
from flamestream.journal.kafka import Row, Told, TopicPlace
from flamestream.model.errors import Fenced
from flamestream.model.ids import Attempt
from flamestream.model.time import Time
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

    def ensure(self, partition: int) -> None:
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
