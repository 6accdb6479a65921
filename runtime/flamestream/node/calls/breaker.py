"""Circuit breaker: whether the service of a call is down, by what its tries gave.

    closed -> tries in a row fail, of several requests -> open -> one of any kind does not -> closed

>>> from flamestream.model.quoted import plain
>>> breaker = Breaker((OSError,))
>>> for request in "abcabcab":
...     breaker.tried(request, ConnectionRefusedError("port 80"))
>>> plain(breaker.trouble)
'ConnectionRefusedError: port 80'
>>> breaker.tried("a", "an answer")
>>> breaker.trouble
''

Keeps: one request that fails for itself never opens it. Does not: wait, or try (tries.py).
"""

from typing import Any, Final

from flamestream.model.quoted import quoted

FAILURES: Final = 8
"""Tries in a row that open it,"""
REQUESTS: Final = 3
"""if they are of so many requests."""
MAX_SAID: Final = 200
"""Characters of an error that are told."""


class Breaker:
    """Of one call; `on` are the exceptions that say that its service is down."""

    def __init__(self, on: tuple[type[BaseException], ...]) -> None:
        self._on = on
        self._failures = 0
        self._requests: set[str] = set()
        """Whose tries these were: as many as count."""
        self.trouble = ""
        """The error that it is open for; empty while it is closed."""
        self.probes = 0
        """Tries while it was open."""

    def tried(self, request: str, outcome: Any) -> None:
        """What a try gave or raised."""
        if not self.opens_on(outcome):
            self._failures, self.probes, self.trouble = 0, 0, ""
            self._requests.clear()
            return
        self.probes += bool(self.trouble)
        self._failures += 1
        if len(self._requests) < REQUESTS:
            self._requests.add(request)
        if self._failures >= FAILURES and len(self._requests) >= REQUESTS:
            self.trouble = f"{type(outcome).__name__}: {quoted(str(outcome)[:MAX_SAID])}"

    def opens_on(self, outcome: Any) -> bool:
        """Whether an outcome says that the service is down."""
        return isinstance(outcome, self._on)

    def is_open(self) -> bool:
        """Whether requests wait, but for one at a time."""
        return bool(self.trouble)
