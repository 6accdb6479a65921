"""The journal in a compacted topic: a partition for each front, and the partition's own order decides what
counts.

    JOB/3/seal/00000007/NONCE-1       attempt 7 has sealed front 3
    JOB/3/batch/00000007/NONCE-2      a batch of entries of attempt 7; with no value: it was trimmed

**What counts.** Going through a partition by offset, a batch of attempt f counts if no seal of an attempt
above f precedes it. So a seal decides for ever, by its place, which batches of older attempts count;
compaction keeps the order, and the newest record of a key.

**A zombie** is not refused by Kafka: its batch is written behind the seal, where it does not count. It learns
that by the offset in its delivery report. Without transactions a partition's offsets have no gaps when they
are written, and what was acknowledged stays where it is. So if the offset is one above the last one that it
knows, nobody has written in between, and the batch counts. If it is higher, the writer reads from there to
the partition's end: a seal of a newer attempt means that it was replaced, and it reports nothing. It reads to
the end, not the gap alone, because the seal in the gap may have been removed when a still newer one followed.

**Keys are never used twice.** A record whose answer was lost may be there, and a seal behind it. Written
again under the same key, compaction would keep the later copy only, which does not count, of a batch that
others have counted; and of two seals the later one, so that what lay between them would begin to count. So
each try has a key of its own; equal entries are taken once. (Within one try librdkafka repeats under a number
by which brokers drop a second copy.)

**Trimming** is a record without a value for each key below the cut: never the newest batch that counts, which
says what the next one follows (a batch that is missing is Corrupt). What an older seal keeps from counting is
trimmed too, and when that is gone for certain the older seals go. The newest one stays, for zombies that are
still to come. A reader sees a trimmed batch or not, as the cleaner came by.

Keeps: JournalAppended only for what every later reader counts. Does not: talk to Kafka
(journal/kafka_partitions.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Final, Protocol
from uuid import uuid4

import msgspec

from flamestream.core.protocol.events import Entry
from flamestream.journal.batches import Batch, Done, Sealed, decoded
from flamestream.model.decoding import msgpack_decoder
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import Attempt
from flamestream.model.time import START, FrontId, Time
from flamestream.ports import Background, Reactor

FORMAT: Final = 1
SEAL: Final = b"sealed"
Told = Callable[[int | Exception], None]


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a partition."""

    offset: int
    key: bytes
    value: bytes | None


class Partitions(Protocol):
    """A compacted topic. Errors: OSError (away), or ours."""

    name: str
    largest: int
    """Bytes that a record's value may have. Known when `ensure` has returned."""

    def ensure(self, partition: int) -> None:
        """See that the topic is there, with this partition, and loses nothing. Blocks."""
        ...

    def write(self, partition: int, key: bytes, value: bytes | None, told: Told) -> None:
        """Append; any thread. In some thread `told` gets the offset (-1: not known) when it is durable, or an
        error: it may be there."""
        ...

    def read(self, partition: int, start: int | None, beyond: int) -> tuple[list[Row], int]:
        """Records from `start` (None: the first) to the end that the partition has when this returns; that
        end, above `beyond`. Blocks."""
        ...


class _Value(msgspec.Struct, frozen=True, array_like=True):
    """The value of a batch's record."""

    version: int
    after: int
    last: int
    entries: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgpack_decoder(_Value)


class _Keys:
    """The keys of one attempt for one front, each given once (!)."""

    def __init__(self, job: str, front: FrontId, attempt: Attempt) -> None:
        self.job, self.front, self.attempt = job, front, attempt
        self._nonce, self._given = uuid4().hex[:12], 0

    def next(self, kind: str) -> bytes:
        self._given += 1
        return f"{self.job}/{self.front}/{kind}/{self.attempt:08d}/{self._nonce}-{self._given}".encode()


@dataclass(slots=True)
class Found:
    """The content of a partition: what counts in it, and what is there besides."""

    newest: int = 0
    """The newest attempt that has sealed."""
    entries: list[Entry] = field(default_factory=list)
    """The entries that count, from the cut on."""
    last: Time = START
    """Time of the newest entry that counts, at whatever time."""
    batches: dict[bytes, Time] = field(default_factory=dict)
    """The keys of all batches that are there, and the last time of each; START: it does not count."""
    seals: list[bytes] = field(default_factory=list)


def judged(rows: Iterable[Row], job: str, front: FrontId, topic: str, cut: Time) -> Found:
    """Judge `rows`, which are a partition from its beginning. Raises Corrupt if something is missing that
    must be there."""
    found = Found()
    values: dict[bytes, bytes] = {}
    for row in rows:
        kind, attempt = _parsed(row, job, front, topic)
        if kind == "seal":
            found.newest = max(found.newest, attempt)
            if row.value is not None:
                found.seals.append(row.key)
        elif row.value is None:
            found.batches.pop(row.key, None)
            values.pop(row.key, None)
        elif attempt < found.newest:
            # Kept by name: the seal that bars it may go only when it is gone itself.
            found.batches[row.key] = START
        else:
            # Counted behind this loop: a trim further on takes it away again, so nothing depends on the
            # cleaner.
            values[row.key] = row.value
    for key, data in values.items():
        _count(found, key, data, f"{topic}/{front}", cut)
    return found


def _count(found: Found, key: bytes, data: bytes, where: str, cut: Time) -> None:
    try:
        value = _decode(data)
    except msgspec.DecodeError as error:
        raise Corrupt(
            f"journal {where}: record {key.decode()} is not a batch ({error}): "
            "give the data up and reset the job"
        ) from error
    if value.version != FORMAT:
        raise Corrupt(f"journal {where} was written by another version ({value.version})")
    # Below the cut it may have been trimmed. And not `!=`: where a try whose answer was lost is there twice,
    # the second copy follows what stands before the first.
    if value.after >= cut and value.after > found.last:
        raise Corrupt(
            f"journal {where}: what came before {key.decode()} is missing, with entries after {found.last} "
            f"up to {value.after} "
            "(if it was trimmed, the reader asked for more than is kept: set journal.keep)"
        )
    if value.last >= cut:
        entries = decoded(value.entries, key.decode())
        found.entries += [
            each
            for each in entries
            if each.time >= cut and (not found.entries or each.time > found.entries[-1].time)
        ]
    found.batches[key] = Time(value.last)
    found.last = max(found.last, Time(value.last))


def _parsed(row: Row, job: str, front: FrontId, topic: str) -> tuple[str, int]:
    """Kind and attempt of a record. Raises UserError if it is not of this job and front."""
    try:
        of, number, kind, attempt, _ = row.key.decode().rsplit("/", 4)
        if of == job and number == str(front) and kind in ("seal", "batch"):
            return kind, int(attempt)
    except ValueError:
        of = "something else"
    raise UserError(
        f"topic {topic!r} holds records of {of}, in partition {front}: "
        "a journal's topic is one job's alone: name another"
    )


class TopicPlace:
    """`journal.batches.Place`."""

    def __init__(self, partitions: Partitions, job: str, reactor: Reactor, threads: Background) -> None:
        """`threads`: where a partition is read."""
        self._partitions, self._job, self._reactor, self._threads = partitions, job, reactor, threads
        self.name = f"topic {partitions.name!r}"

    def seal(self, front: FrontId, attempt: Attempt, cut: Time) -> Sealed:
        partitions = self._partitions
        partitions.ensure(front)
        keys = _Keys(self._job, front, attempt)
        key = keys.next("seal")
        # Written before anything is read: what older attempts add from here on lies behind it, and does not
        # count (!).
        at = self._written(front, key)
        rows, end = partitions.read(front, None, at)
        found = judged(rows, self._job, front, partitions.name, cut)
        # Before the own seal is looked for: whoever has sealed since may have removed it.
        if found.newest > attempt:
            raise _replaced(partitions.name, front, found.newest, attempt)
        if key not in found.seals:
            raise ConnectionError(f"the seal {key.decode()} is not there")
        # The others, of older attempts or of own tries whose answer was lost, may go once nothing needs them.
        found.seals.remove(key)
        return Sealed(
            found.entries,
            found.last,
            TopicWriter(partitions, keys, end - 1, found, self._reactor, self._threads),
        )

    def _written(self, front: FrontId, key: bytes) -> int:
        """Write a seal; its offset. Whether it is there if this raises is not known: the next try has another
        key (!)."""
        answers: list[int | Exception] = []
        answered = Event()

        def told(answer: int | Exception) -> None:
            answers.append(answer)
            answered.set()

        self._partitions.write(front, key, SEAL, told)
        # It needs no limit: the producer answers within its message.timeout.ms, with an error at the latest.
        answered.wait()
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]


class TopicWriter:
    """`journal.batches.Writer`. Only in the loop's thread, but for `_look`."""

    way_out = "raise max.message.bytes of the journal's topic, and start the job again"

    def __init__(
        self, partitions: Partitions, keys: _Keys, position: int, found: Found, reactor: Reactor,
        threads: Background
    ) -> None:  # fmt: skip
        self.largest = self.full = partitions.largest
        self._partitions, self._keys, self._reactor, self._threads = partitions, keys, reactor, threads
        self._where = f"journal {partitions.name}/{keys.front}"
        self._position = position
        """The offset up to which, from the own seal on, no newer attempt has sealed."""
        self._batches = found.batches
        self._newest = found.last
        self._strays = {key for key, last in found.batches.items() if last == START}
        """Keys of batches that do not count because of an older seal, and are not yet gone for certain."""
        self._seals = found.seals
        """Keys of older seals."""

    def send(self, batch: Batch, done: Done) -> None:
        key = self._keys.next("batch")
        self._batches[key] = batch.last  # also if no answer comes: it may be there
        value = _encode(_Value(FORMAT, batch.after, batch.last, batch.data))
        self._write(key, value, lambda answer: self._reported(answer, key, batch.last, done))

    def trim(self, before: Time) -> None:
        for key in [
            key
            for key, last in self._batches.items()
            if last < before and (last == START or last != self._newest)
        ]:
            # Out at once: the next trim may come before the answer.
            last = self._batches.pop(key)
            self._write(key, None, partial(self._trimmed, key, last))
        # Without its seal a batch that it keeps from counting would begin to count (!).
        if not self._strays:
            seals, self._seals = self._seals, []
            for key in seals:
                self._write(key, None, self._gone)

    def _write(self, key: bytes, value: bytes | None, told: Told) -> None:
        self._partitions.write(
            self._keys.front, key, value, lambda answer: self._reactor.soon(partial(told, answer))
        )

    def _gone(self, answer: int | Exception) -> None:
        """A seal is gone. If it is not, who seals next meets it again."""
        # Own records move the position too: else the next batch would stand behind a gap, and be looked for.
        self._follows(answer)

    def _trimmed(self, key: bytes, last: Time, answer: int | Exception) -> None:
        self._follows(answer)
        if isinstance(answer, Exception):
            self._batches[key] = last  # tried again at the next trim
        else:
            self._strays.discard(key)

    # --- does it count? -------------------------------------------------------------------------------------

    def _follows(self, answer: int | Exception) -> bool:
        """Whether nobody has written between this record and the last one (!): offsets have no gaps when they
        are written."""
        if answer != self._position + 1:
            return False
        self._position += 1
        return True

    def _reported(self, answer: int | Exception, key: bytes, last: Time, done: Done) -> None:
        if isinstance(answer, Exception):
            done(answer)
        elif self._follows(answer):
            self._counts(last, done)
        else:
            self._threads.background(
                partial(self._look, self._position + 1, key, answer), partial(self._looked, last, done)
            )

    def _look(self, start: int, key: bytes, at: int) -> int:
        """The partition's end, if this record counts. Blocks. Raises Fenced if a newer attempt has sealed."""
        if 0 <= at < start:
            raise Corrupt(
                f"{self._where}: a record got offset {at} behind one at {start - 1}: the brokers have lost "
                "acknowledged records"
            )
        keys, topic = self._keys, self._partitions.name
        rows, end = self._partitions.read(keys.front, start, at)
        # Of records of any kind: an attempt writes nothing before it has sealed.
        newest = max((_parsed(row, keys.job, keys.front, topic)[1] for row in rows), default=0)
        if newest > keys.attempt:
            raise _replaced(topic, keys.front, newest, keys.attempt)
        if all(row.key != key for row in rows):
            raise ConnectionError(f"{self._where}: record {key.decode()} is not there")
        return end

    def _looked(self, last: Time, done: Done, result: int | Exception) -> None:
        if isinstance(result, Exception):
            done(result)
        else:
            self._position = max(self._position, result - 1)
            self._counts(last, done)

    def _counts(self, last: Time, done: Done) -> None:
        self._newest = max(self._newest, last)
        done(None)


def _replaced(topic: str, front: FrontId, newest: int, attempt: Attempt) -> Fenced:
    return Fenced(
        f"journal {topic}/{front}: a newer attempt {newest} has sealed it; "
        f"this worker of attempt {attempt} was replaced"
    )


def everything(partitions: Partitions, job: str, front: FrontId, cut: Time = START) -> list[Entry]:
    """All entries of `front` from `cut` on that count now, oldest first. Blocks. Raises Corrupt if some were
    trimmed."""
    return judged(partitions.read(front, None, -1)[0], job, front, partitions.name, cut).entries
