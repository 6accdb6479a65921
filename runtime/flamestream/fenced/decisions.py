"""Which bytes of older attempts count, in a folder that several attempts write to: decided once for each
fence, for ever.

Of every fence (an attempt, or an attempt and its layout) there are up to three things, whose names and bytes
are the folder's own:

    an announcement   somebody is about to decide under this fence, or has
    a decision        up to which byte each older file counts; created once, whoever comes first
    files             what was written under it

To open under a fence is to announce it, to look whether a newer one is announced, and to read the decision,
or make it. The newest decision before it has fixed the lengths of all files but those of its own fence: these
are read now, as far as they are whole, and the new decision has both. So:

- A decision copies what the one before has fixed: nothing is counted twice, and an opening reads only the
  files of one fence.
- The newest and not the oldest rules, because who decides late may have slept: when fence 9 looked for
  decisions, its announcement had refused fence 8 already, so a decision of 8 that appears afterwards has had
  no consequence.
- A writer looks for newer announcements after it has written. If it sees none, what it wrote lies within the
  bytes that will be read, and it may say "durable". A zombie may not.

Keeps: a fence is refused once a newer one is announced (invariant 6); a decision never changes; what counted
once counts for ever. Needs: a file system on which every machine sees a file as soon as it is created or
written (one machine's, or a cluster file system; not NFS with caching). Does not: know names, formats or
records (journal/seal.py, fenced/fences.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from flamestream.model.errors import Corrupt, Fenced
from flamestream.model.ids import Attempt, Fence

F = TypeVar("F", Attempt, Fence)
D = TypeVar("D")
_LOOKS: Final = 10


class Decisions(ABC, Generic[F, D]):
    """The decisions of one folder. All calls block."""

    def decide(self, fence: F, counted: Callable[[tuple[F, D] | None], D]) -> D:
        """Refuse everything older than `fence` from now on; what counts of it. Raises Fenced if there is a
        newer one.

        `counted` gives that, of the newest decision below and its fence, if there is one; it is not asked
        where somebody was first.
        """
        # (!) before anything is read: whoever decides for an older fence from here on finds itself refused
        self._announce(fence)
        self.check(fence)
        decision = self._decision(fence)
        if decision is None:
            self._create(fence, counted(self.newest(below=fence)))
            decision = self._decision(fence)  # another's, if that was first
        # Once more: who has opened under a newer fence meanwhile may have decided without this decision, so
        # nothing may follow from it (!).
        self.check(fence)
        if decision is None:
            raise Corrupt(
                f"{self._where}: what was decided for {fence} is gone at once; "
                "does something delete files there?"
            )
        return decision

    def check(self, fence: F) -> None:
        """Raises Fenced if a fence newer than `fence` is announced."""
        newest = max(self._announced(), default=fence)
        if newest > fence:
            raise Fenced(self._replaced(newest, fence))

    def newest(self, below: F | None = None) -> tuple[F, D] | None:
        """The newest decision and its fence; None before the first."""
        for _ in range(_LOOKS):
            fences = [fence for fence in self._decided() if below is None or fence < below]
            if not fences:
                return None
            if (decision := self._decision(max(fences))) is not None:
                return max(fences), decision
            if below is not None:  # a newer opening removes old decisions: this one is fenced
                self.check(below)
        raise Corrupt(
            f"{self._where}: decisions vanish while they are read; does something delete files there?"
        )

    # --- of each kind of folder -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def _where(self) -> str:
        """The folder's name in messages."""

    @abstractmethod
    def _announce(self, fence: F) -> None:
        """Announce `fence`, durably."""

    @abstractmethod
    def _announced(self) -> Iterable[F]:
        """Fences with an announcement."""

    @abstractmethod
    def _decided(self) -> Iterable[F]:
        """Fences with a decision."""

    @abstractmethod
    def _decision(self, fence: F) -> D | None:
        """The decision under `fence`; None if there is none."""

    @abstractmethod
    def _create(self, fence: F, decision: D) -> None:
        """Write the decision under `fence`, whole and durably, unless there is one."""

    @abstractmethod
    def _replaced(self, newest: F, fence: F) -> str:
        """The message to a writer under `fence` when `newest` has taken over."""
