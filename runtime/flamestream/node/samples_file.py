"""The last hour of samples of a job of this machine, as lines of JSON in its run folder.

    samples.jsonl         a line a second, by whichever coordinator there is
    samples.old.jsonl     what samples.jsonl was when it had an hour of lines

Keeps: an hour of lines at least and two at most; a line that was torn costs itself. Does not: make a sample
(samples.py), or survive a crash of the machine with its last seconds; nothing rests on them.
"""

import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from flamestream.model.decoding import DecodeError, json_decoder
from flamestream.node.samples import EVERY, HOUR, MOST, Sample
from flamestream.node.tail import Tail

NEW: Final = "samples.jsonl"
OLD: Final = "samples.old.jsonl"
_decode: Final = json_decoder(Sample)


class SamplesFile:
    """Samples are added to those that a run folder has."""

    def __init__(self, folder: Path) -> None:
        self._new, self._old = folder / NEW, folder / OLD
        there = self._new.read_bytes() if self._new.exists() else b""
        self._lines = there.count(b"\n")
        self._torn = bool(there) and not there.endswith(b"\n")

    def add(self, sample: Sample) -> None:
        """Append it."""
        if self._lines >= MOST:
            with suppress(FileNotFoundError):  # somebody has cleared the folder up
                os.replace(self._new, self._old)
            self._lines, self._torn = 0, False
        # one write: a predecessor that is not gone yet may append too
        line = b"%s%s\n" % (b"\n" if self._torn else b"", msgspec.json.encode(sample))
        descriptor = os.open(self._new, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._torn = os.write(descriptor, line) < len(line)
        finally:
            os.close(descriptor)
        self._lines += 1


class BatchSamples:
    """The samples of a job in micro-batches, which has no coordinator: results alone, from their number."""

    def __init__(self, folder: Path) -> None:
        self._file = SamplesFile(folder)
        self._before = time.monotonic(), 0

    def take(self, delivered: int, *, epoch: int, attempt: int) -> None:
        """Add one, if a second is over. `delivered`: results so far."""
        now, (since, before) = time.monotonic(), self._before
        if now - since < EVERY:
            return
        rate, at = round((delivered - before) / (now - since), 1), time.time_ns() // 1_000_000 * 1000
        self._file.add(Sample(at=at, items_out=rate, epoch=epoch, attempt=attempt))
        self._before = now, delivered


class SamplesTail:
    """The last hour of a run folder, read on from where it was read to."""

    def __init__(self, folder: Path) -> None:
        self._new, self._old = Tail(folder / NEW), Tail(folder / OLD)
        self._all: deque[Sample] = deque(maxlen=MOST)

    def behind(self, moment: int = 0) -> list[Sample]:
        """Samples behind a moment, of the hour before the newest one."""
        # the newer file first (!): if it becomes the older one meanwhile, its lines are met twice, and none is missed
        found = [*_samples(self._new.new()), *_samples(self._old.new())]
        known = self._all[-1].at if self._all else 0
        self._all += sorted(
            {each.at: each for each in found if each.at > known}.values(), key=lambda each: each.at
        )
        if not self._all:
            return []
        first = max(moment, self._all[-1].at - HOUR)
        return list(takewhile(lambda each: each.at > first, reversed(self._all)))[::-1]


def _samples(lines: Iterable[bytes]) -> Iterable[Sample]:
    for line in lines:
        with suppress(DecodeError):  # torn, or of another release
            yield _decode(line)
