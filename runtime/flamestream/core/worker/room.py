"""The room of a pass: how much may enter in one, and answers of calls cut to it.

Whoever is in a pass hears nobody: a recovery waits for the longest of its workers' passes, and a worker whose
pass takes seconds seems lost. So as much enters as is done in `PASS_US`, by what the last passes took.

>>> room = Room()
>>> room.enter(100); room.next_pass(10_000)         # a tenth of a millisecond for each byte
>>> room.left
250

In a pause nothing enters: while the epoch is taken behind which slots move. Whatever enters above its cut is
computed again, by whoever has its slots then, and until that is done no result leaves. What has entered goes
through to consumers, and the cut comes behind it: the next attempt has nothing to replay.

>>> pause = Pause(limit=100)
>>> pause.begin(Epoch(4), Instant(1_000)); pause.lasts(Instant(1_050)), pause.news(), pause.news()
(True, 4, None)
>>> pause.decided(Epoch(4)); pause.lasts(Instant(1_060))
False

Keeps: of whatever comes at once, no run but that of a single payload is more than a pass has room for; one run
enters in each pass, whatever it takes, but in a pause. That lasts no longer than its limit, whoever should have
ended it; where it ends too early, the epoch is like any other. Does not: read a clock (worker_host.py), or count
what is under way (credit.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from flamestream.model import payload as codec
from flamestream.model.ids import Epoch
from flamestream.model.time import Instant

READ_AHEAD: Final = 4
"""Journalled runs that are asked for at once."""
PASS_BYTES: Final = 32_768
"""Bytes of input that may enter in one pass (more only if a single run is bigger), however fast it is."""
FIRST_BYTES: Final = 512
"""Bytes that may enter in the first pass, of which nobody knows yet how long it takes."""
PASS_US: Final = 25_000
"""Microseconds that a pass should take at most: others wait no longer for who is in one."""
MARK_BYTES: Final = 2_048
"""Bytes of input that a mark counts for: it goes to every shard of keys, and may close a window of each."""
RECORDS_A_RUN: Final = 4096
"""The most records of one journalled run."""


class Room:
    """The room of each pass of one worker, in all its attempts."""

    def __init__(self) -> None:
        self.size = FIRST_BYTES
        """Bytes of a whole pass."""
        self.left = self.size
        """Bytes that may still enter in this one."""
        self._entered = 0
        self._bytes = self._us = 0.0
        """Sums of what has entered and of how long that took; each pass counts for half of the one behind it."""

    def enter(self, size: int) -> None:
        """Take so much of the room of this pass."""
        self.left -= size
        self._entered += size

    def next_pass(self, us: int | None) -> None:
        """Begin another pass. The last one took so long, with all that it led to here; None: nobody
        measures."""
        entered, self._entered = self._entered, 0
        if us is None:
            self.size = PASS_BYTES
        elif entered and us > 0:
            self._bytes, self._us = self._bytes / 2 + entered, self._us / 2 + us
            # (!) a full pass that was short shows that more has room, whatever it did beside what entered
            least = 2 * self.size if self.left <= 0 and us <= PASS_US else 1
            self.size = max(least, int(self._bytes * PASS_US / self._us))
            self.size = min(PASS_BYTES, self.size)
        self.left = self.size

    def second_half(self) -> None:
        """Begin the second half of a pass: where time is short what was left in the first one is all."""
        if self.size == PASS_BYTES:
            self.left = self.size


class Pause:
    """The pause of one worker in one attempt, if it makes one."""

    def __init__(self, limit: int) -> None:
        """`limit`: microseconds."""
        self._limit = limit
        self._epoch: Epoch | None = None
        self._since = Instant(0)
        self._told = True
        self._decided = Epoch(0)

    def begin(self, epoch: Epoch, now: Instant) -> None:
        """Let nothing enter until `epoch` is decided."""
        # a word that comes behind the end of its epoch: nobody would end this one
        if epoch > self._decided:
            self._epoch, self._since, self._told = epoch, now, False

    def decided(self, epoch: Epoch) -> None:
        """`epoch`, and any before it, is committed or aborted."""
        self._decided = max(self._decided, epoch)
        if self._epoch is not None and self._epoch <= epoch:
            self._epoch = None

    def lasts(self, now: Instant) -> bool:
        """Whether nothing may enter."""
        if self._epoch is not None and now - self._since >= self._limit:
            self.decided(self._epoch)
        return self._epoch is not None

    def news(self) -> Epoch | None:
        """The epoch whose pause has begun since the last call."""
        told, self._told = self._told, True
        return None if told else self._epoch


def size_of(run: Iterable[object]) -> int:
    """Its bytes."""
    return sum(map(codec.checked_size, run))


def runs_of(payloads: Sequence[object]) -> Iterator[tuple[list[object], int]]:
    """All of them in order, each run with its bytes: at most what enters in a pass (!), or a single one."""
    run, size = list[object](), 0
    for payload in payloads:
        its = codec.checked_size(payload)
        # (!) a journal takes no entry of any size
        if run and (size + its > PASS_BYTES or len(run) == RECORDS_A_RUN):
            yield run, size
            run, size = [], 0
        run.append(payload)
        size += its
    if run:
        yield run, size
