"""Proofs: entries in journals of this worker's fronts that say nothing but that its attempt may still write.

Keeps: a proof is told when an entry that was begun behind its question is durable. Does not: know what it is for
(looks.py).
"""

from collections.abc import Mapping, Sequence

from flamestream.core.protocol.actions import Action, Append
from flamestream.core.worker.front import Front, JournalledFront
from flamestream.model.ids import Fence
from flamestream.model.time import FrontId, Time, Timestamp


class Proofs:
    """The proofs of one attempt on one worker."""

    def __init__(self, fence: Fence, fronts: Mapping[FrontId, Front]) -> None:
        self._fence, self._fronts = fence, fronts
        self._asked: list[tuple[FrontId, int]] = []
        self._begun: list[tuple[FrontId, int, Time]] = []
        self._told: list[int] = []

    def ask(self, front: FrontId, number: int) -> None:
        """Proof `number` is asked for."""
        self._asked.append((front, number))

    def begin(self, now: Timestamp, leaving: Sequence[Action]) -> list[Append]:
        """The entries of those that can be begun now. One of the front that is `leaving` serves as well (!): it is
        written behind the question, too."""
        asked, self._asked = self._asked, []
        begun = []
        for number, proof in asked:
            front = self._fronts[number]
            assert isinstance(front, JournalledFront), f"front {number} has no journal"
            if front.ended:  # as the acker will hear, and ask another one
                continue
            if (newest := _newest(leaving, number)) is not None:
                self._begun.append((number, proof, newest))
            elif (entry := front.prove(now)) is None:
                self._asked.append((number, proof))
            else:
                self._begun.append((number, proof, entry.time))
                begun.append(Append(self._fence, number, entry))
        return begun

    def durable(self, front: FrontId, time: Time) -> None:
        """The journal of a front holds every entry up to `time`."""
        if self._begun:
            self._told += [proof for number, proof, at in self._begun if number == front and at <= time]
            self._begun = [each for each in self._begun if each[0] != front or each[2] > time]

    def take(self) -> list[int]:
        """The proofs that there are since the last call."""
        told, self._told = self._told, []
        return told


def _newest(leaving: Sequence[Action], front: FrontId) -> Time | None:
    """The time of the last entry of a front that leaves."""
    times = (each.entry.time for each in reversed(leaving) if type(each) is Append and each.front == front)
    return next(times, None)
