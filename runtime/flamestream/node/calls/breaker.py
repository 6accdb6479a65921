"""Circuit breaker: whether the service of a call is down, by what its tries gave.

    closed -> tries in a row say so -> open -> one that says anything else -> closed

That nobody is there (refused, no route, no such name) is never a request's own fault, so three in a row are
enough. What else may say it (a time-out, what a call names) takes eight, of several requests.

>>> from flamestream.model.quoted import plain
>>> breaker = Breaker(())
>>> for _ in range(3):
...     breaker.tried("a request", ConnectionRefusedError("port 80"))
>>> plain(breaker.trouble)
'ConnectionRefusedError: port 80'
>>> breaker.tried("a request", "an answer")
>>> breaker.trouble
''

Keeps: one request that times out for itself never opens it. Does not: wait, or try (tries.py).
"""

import errno
import socket
from collections.abc import Iterator
from typing import Any, Final

from flamestream.model.failure import said
from flamestream.model.quoted import quoted

NOBODY_THERE: Final = 3
"""Tries in a row that open it where nobody is there,"""
FAILURES: Final = 8
"""and others,"""
REQUESTS: Final = 3
"""of so many requests."""
MAX_SAID: Final = 200
"""Characters of an error that are told."""
_UNREACHABLE: Final = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}
_LONGEST_CHAIN: Final = 32


def chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, and what it came of: clients wrap those of the network in their own."""
    waiting = [error]
    for _ in range(_LONGEST_CHAIN):
        if not waiting:
            return
        yield (each := waiting.pop(0))
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        # (!) Also behind `from None`: httpcore2, below httpx2, hides so what its errors came of.
        if (came_of := each.__cause__ or each.__context__) is not None:
            waiting.append(came_of)


def nobody_there(error: BaseException) -> bool:
    """Whether it says that there is no connection to be had."""
    return isinstance(error, ConnectionError | socket.gaierror) or (
        isinstance(error, OSError) and error.errno in _UNREACHABLE
    )


class Breaker:
    """The breaker of one call. `on`: exceptions that say that its service is down, beside those of the
    network; None: nothing says so."""

    def __init__(self, on: tuple[type[BaseException], ...] | None) -> None:
        self._on = on
        self._failures = 0
        self._nobody = 0
        """How many of the failures, the last ones in a row, said that nobody is there."""
        self._requests: set[str] = set()
        """The requests whose tries failed: as many as count."""
        self.trouble = ""
        """The error that it is open for; empty while it is closed."""
        self.probes = 0
        """Tries that failed while it was open."""

    def tried(self, request: str, outcome: Any) -> None:
        """Take the outcome of a try: what it gave or raised."""
        if not self.opens_on(outcome):
            self._failures, self._nobody, self.probes, self.trouble = 0, 0, 0, ""
            self._requests.clear()
            return
        self.probes += bool(self.trouble)
        self._failures += 1
        self._nobody = self._nobody + 1 if any(map(nobody_there, chain(outcome))) else 0
        if len(self._requests) < REQUESTS:
            self._requests.add(request)
        of_several = self._failures >= FAILURES and len(self._requests) >= REQUESTS
        if self._nobody >= NOBODY_THERE or of_several:
            self.trouble = f"{type(outcome).__name__}: {quoted(said(outcome)[:MAX_SAID])}"

    def opens_on(self, outcome: Any) -> bool:
        """Whether an outcome says that the service is down."""
        if self._on is None or not isinstance(outcome, Exception):
            return False
        return any(
            isinstance(each, (TimeoutError, *self._on)) or nobody_there(each) for each in chain(outcome)
        )

    def is_open(self) -> bool:
        """Whether requests wait, but for one at a time."""
        return bool(self.trouble)
