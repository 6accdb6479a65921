"""Failures without progress: when starting again is no use.

A run that kills its worker kills it again at every replay. So the same kind of failure, so many times in a
row, without minimal time having moved and without a calm stretch between, ends the job with an error that
names it. Only failures of a running stream count: one during a recovery says nothing about the input, and is
tried again for as long as it takes, with growing pauses.

Keeps: no endless crash loop. Does not: detect failures (coordinator.py).
"""

from flamestream.core.coordinator.deadlines import Deadlines
from flamestream.model.backoff import Backoff
from flamestream.model.errors import Bug, FlameStreamError, UserError
from flamestream.model.time import START, Instant, Time

AGAIN_US = Backoff(50_000, 2_000_000)
MOST_WORDS = 1000
BY_THE_INPUT = ("lost", "worker")
"""Kinds of failure that a run can cause."""


class Failures:
    """The failures of one kind in a row."""

    def __init__(self, deadlines: Deadlines, limit: int, calm_us: int) -> None:
        self._deadlines, self._limit, self._calm = deadlines, limit, calm_us
        self._kind = ""
        self._count = 0
        self._at = START
        self._died_of = ""
        """The reason that a worker which was lost in this streak has left behind."""
        self._unfinished = 0
        """Recoveries in a row that did not reach Replay."""
        self._began = Instant(0)
        self._running_since: Instant | None = None

    def running(self) -> None:
        """A recovery has reached Replay."""
        self._unfinished = 0
        self._running_since = self._deadlines.now

    def recover(self) -> None:
        """A recovery begins."""
        self._unfinished += 1
        self._began = self._deadlines.now

    def may_recover(self) -> bool:
        """Whether the pause after recoveries that came to nothing is over."""
        return self._unfinished < 2 or self._deadlines.due_in(
            self._began, AGAIN_US.after(self._unfinished - 1)
        )

    def explain(self, died_of: str) -> None:
        """A worker's new life says why the one before ended."""
        self._died_of = died_of[:MOST_WORDS]

    def count(self, kind: str, message: str, minimal: Time, since: Instant, *, idle: bool) -> None:
        """A running stream has failed, at `since`. Raise if that was once too often. `idle`: nothing was in
        flight."""
        # (!) until it failed: who waits for a lost worker's next life does not run
        ran = self._running_since is not None and since - self._running_since >= self._calm
        calm = idle and ran
        # any of the three differing is progress
        again = kind == self._kind and minimal <= self._at and not calm
        if not again:
            self._died_of = ""
        self._kind, self._count, self._at = kind, self._count + 1 if again else 1, max(minimal, self._at)
        if self._count >= self._limit:
            raise self._error(message)

    def _error(self, message: str) -> FlameStreamError:
        told = (
            f"{message}; the {self._count}th failure of this kind in a row, "
            f"with minimal time standing at {self._at}."
        )
        if self._kind in BY_THE_INPUT:
            guess = (
                "The run at that time probably fails its worker (memory, recursion, "
                "a crash in native code, a hang)"
            )
            return UserError(f"{told} {self._died_of or guess}")
        return Bug(f"{told} Messages get lost between workers, or one of them does not go on")
