"""Which processors a worker's loop runs on, where the workers of a job share a machine.

A message over loopback makes Linux wake its reader on the sender's processor, in the belief that the sender
is about to sleep. Ours goes on with its own share of the run, so two workers of one run would take turns on
one processor while another is idle. Hence each loop keeps to processors of its own. Helper threads go where
they like.

>>> sorted(share(1, of=2, available={0, 1, 2, 3})), share(0, of=4, available={0, 1})
([2, 3], frozenset())

Keeps: threads other than the loop's are as free as the process was when it began. Does not: reserve anything;
others may run there too.
"""

import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

# As this module is imported: no loop has been kept to some of them yet.
_ALL: Final = frozenset(os.sched_getaffinity(0))

log = logging.getLogger(__name__)


def share(index: int, *, of: int, available: Collection[int] = _ALL) -> frozenset[int]:
    """The processors of worker `index` of `of`; none if there are fewer than workers, or the worker is a
    standby (yet)."""
    ordered, count = sorted(available), len(available)
    # one worker alone has all; more workers than processors are the kernel's to place
    if not 2 <= of <= count or index >= of:
        return frozenset()
    return frozenset(ordered[index * count // of : (index + 1) * count // of])


def keep_to(processors: Collection[int]) -> None:
    """Keep the calling thread to some processors. Where that is not allowed it runs where it did: only time
    is lost."""
    try:
        os.sched_setaffinity(0, processors)
    except OSError as error:
        log.info("the loop cannot be kept to processors %s: %s", sorted(processors), error)


def anywhere() -> None:
    """Let the calling thread run anywhere, though one started it that is kept to some processors."""
    keep_to(_ALL)


@contextmanager
def freely() -> Iterator[None]:
    """A context to start threads in that run anywhere from the first, also those that are not Python's."""
    mine = os.sched_getaffinity(0)
    # a thread inherits the processors of the one that starts it
    anywhere()
    try:
        yield
    finally:
        keep_to(mine)
