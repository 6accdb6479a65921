"""The life of a front in any journal: it is sealed before anything is appended to it, and a newer fence
replaces the older one.

A seal that fails because the outside is away is told and tried again until it succeeds; one that is refused for
ever (a newer attempt, a fault of the user's, damage) is told and given up.

Keeps: an entry is taken only under the fence that sealed. Does not: write anything (journal/folder.py,
journal/batches.py).
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from flamestream.core.protocol.actions import Append, SealJournal
from flamestream.core.protocol.events import Entry, JournalFailed, JournalSealed, SourceFailed
from flamestream.model.backoff import Backoff
from flamestream.model.errors import Bug, Fenced, FlameStreamError, Retryable
from flamestream.model.ids import Fence
from flamestream.model.time import FrontId
from flamestream.ports import Background, Post, Reactor

AWAY: Final = (OSError, Retryable)
"""Errors of an outside that does not answer now; the same call may work later."""
AGAIN: Final = Backoff(0.05, 2.0)
MOST_REASONS: Final = 8


class FrontLog(Protocol):
    """The writing of one attempt for one front."""

    @property
    def fence(self) -> Fence: ...

    def abandon(self) -> None:
        """Write nothing more, and tell nobody."""
        ...


L = TypeVar("L", bound=FrontLog)
R = TypeVar("R")


class Outage:
    """Failures of a call that is made again and again: their number, and the reasons that were told."""

    def __init__(self) -> None:
        self.failures = 0
        self._reasons = set[str]()

    def fails(self, error: Exception) -> bool:
        """Count one. True if its reason is to be told: silence is once, and so is each answer that refuses,
        also behind a silence: its reader must act."""
        self.failures += 1
        reason = str(error) if isinstance(error, Retryable) else ""
        if reason in self._reasons or len(self._reasons) == MOST_REASONS:
            return False
        self._reasons.add(reason)
        return True


class SealedFronts(Generic[L, R]):
    """The fronts of a journal: `L` is what is appended to, `R` what a sealing gives."""

    def __init__(self, reactor: Reactor, post: Post, threads: Background) -> None:
        self._reactor, self._threads = reactor, threads
        self._post = post
        self._sealing: dict[FrontId, Fence] = {}
        self._logs: dict[FrontId, L] = {}

    def seal(self, action: SealJournal) -> None:
        """Fix what counts. Answer: JournalSealed. What older fences still wanted to write is dropped: it was
        never reported as durable."""
        if self._sealing.get(action.front, action.fence) > action.fence:
            return
        self._sealing[action.front] = action.fence
        if (old := self._logs.pop(action.front, None)) is not None:
            old.abandon()
        self._try(action, Outage())

    def _try(self, action: SealJournal, outage: Outage) -> None:
        if self._sealing[action.front] == action.fence:
            self._threads.background(self._sealer(action), partial(self._sealed, action, outage))

    def _sealed(self, action: SealJournal, outage: Outage, result: R | Exception) -> None:
        # The late answer of an older fence: its log must not take the newer one's place.
        if self._sealing[action.front] != action.fence:
            return
        if isinstance(result, AWAY):
            if outage.fails(result):
                message = f"cannot seal {self._name(action.front)}: {result}; it is tried again"
                self._post(JournalFailed(action.fence, action.front, message))
            self._reactor.later(AGAIN.after(outage.failures), partial(self._try, action, outage))
        elif isinstance(result, Exception):
            self._refused(action.fence, action.front, result)
        else:
            self._logs[action.front], entries = self._opened(action, result)
            self._post(JournalSealed(action.fence, action.front, entries))

    def _refused(self, fence: Fence, front: FrontId, error: Exception) -> None:
        """Tell why nothing more is written under this fence; a bug is raised."""
        if isinstance(error, Fenced):
            self._post(JournalFailed(fence, front, str(error)))
        elif isinstance(error, FlameStreamError) and not isinstance(error, Bug):
            self._post(SourceFailed(fence, front, error.category, str(error)))
        else:
            raise error

    def _log_of(self, action: Append) -> L | None:
        """The log that takes this entry; None if a newer fence has come. Raises Bug before the front is
        sealed."""
        log = self._logs.get(action.front)
        if log is not None and log.fence == action.fence:
            return log
        if self._sealing.get(action.front, action.fence) > action.fence:
            return None
        raise Bug(f"front {action.front} appends under {action.fence} before its journal is sealed")

    # --- of each kind ---------------------------------------------------------------------------------------

    def _name(self, front: FrontId) -> str:
        """The journal of `front` in messages."""
        raise NotImplementedError

    def _sealer(self, action: SealJournal) -> Callable[[], R]:
        """The call that seals, for a helper thread."""
        raise NotImplementedError

    def _opened(self, action: SealJournal, sealed: R) -> tuple[L, list[Entry]]:
        """The log that is appended to from now on, and the entries that count, from the cut on."""
        raise NotImplementedError
