"""Looks: queries at the acker, on their way to all owners.

A strict answer must have all that anybody can have seen when it was asked for. What this attempt has released is below
the minimal time that is told next. But a newer attempt may have begun, of which nobody here has heard: so each strict
query waits until a journal has taken an entry that was begun behind it (!). A newer attempt seals all journals before
it releases anything, and a sealed journal takes no more entries of an older one.

Keeps: one proof under way, for all queries that have come before it. Does not: know what is asked.
"""

from collections.abc import Sequence

from flamestream.core.protocol.queries import Ask, Look, Prove
from flamestream.model.ids import WorkerId
from flamestream.model.time import FrontId


class Looks:
    """The queries at one acker."""

    def __init__(self) -> None:
        self._ready: list[tuple[WorkerId, Ask]] = []
        self._unproved: list[tuple[WorkerId, Ask]] = []
        self._under_way: list[tuple[WorkerId, Ask]] = []
        self._number, self._front = 0, FrontId(0)
        """The newest proof, and whose it is."""

    def ask(self, gateway: WorkerId, message: Ask) -> None:
        """A gateway has a query for all owners."""
        (self._unproved if message.strict else self._ready).append((gateway, message))

    @property
    def waits(self) -> bool:
        """Whether a query waits for a proof."""
        return bool(self._under_way or self._unproved)

    def prove(self, fronts: Sequence[FrontId]) -> Prove | None:
        """The proof to ask for, if there is one; one of `fronts` writes it: those that have not ended."""
        if not fronts or (self._under_way and self._front in fronts):
            return None
        self._under_way, self._unproved = [*self._under_way, *self._unproved], []
        self._number, self._front = self._number + 1, fronts[0]
        return Prove(self._front, self._number)

    def proved(self, number: int) -> None:
        """This was the newest attempt when the proof was asked for."""
        if number == self._number:
            self._ready += self._under_way
            self._under_way = []

    def take(self, *, over: bool) -> Look | None:
        """The queries that all owners are to answer as of the minimal time told last. `over`: that is END, above which
        no attempt has anything."""
        ready, self._ready = self._ready, []
        if over:
            ready += [*self._under_way, *self._unproved]
            self._under_way, self._unproved = [], []
        return Look(ready) if ready else None
