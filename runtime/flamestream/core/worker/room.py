"""The room of a pass: how much may enter in one, and answers of calls cut to it.

Keeps: of whatever comes at once, no run but that of a single payload is more than a pass has room for. Does
not: count what has entered (fronts.py), or what is under way (credit.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from flamestream.model import payload as codec

READ_AHEAD: Final = 4
"""Journalled runs that are asked for at once."""
PASS_BYTES: Final = 32_768
"""Bytes of input that may enter in one pass (more only if a single run is bigger): passes stay short,
whatever backlog there is."""
MARK_BYTES: Final = 2_048
"""Bytes of input that a mark counts for: it goes to every shard of keys, and may close a window of each."""
RECORDS_A_RUN: Final = 4096
"""The most records of one journalled run."""


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
