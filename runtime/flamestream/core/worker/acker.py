"""Minimal time: the global time below which nothing is in flight or will enter.

Each message in flight has a cause (the time of the run that led to it) and a 64-bit id. A cause's entry is
the XOR of the ids sent and received under it, so it is zero exactly when everything sent has been processed.
A receiver acks once, after processing, with `id received XOR ids sent`: one step, so the entry never touches
zero too early. Ids must be mixed non-linearly (4^5^6^7 = 0).

>>> table = AckTable([FrontId(1)], START)
>>> table.ack(Time(5), MessageId(0xBEEF))     # the front sent one run at time 5 ...
>>> table.promise(FrontId(1), Time(6))        # ... and will send nothing below 6
>>> table.minimal_time
5
>>> table.ack(Time(5), MessageId(0xBEEF))     # a worker processed it and sent nothing on
>>> table.minimal_time
6

A worker may have transactions that it puts off until only such as these could still change what they read: minimal time
stands at the lowest of them, and `reached` is what it would be without (!).

Keeps: minimal time never goes back (invariant 1). Does not: decide who acks when (worker.py), or talk to
anyone (shell). Source: EDBT 2018, section 3.3; one ack a message instead of two is ours (decision 004).
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from flamestream.model.ids import MessageId, WorkerId
from flamestream.model.time import END, START, FrontId, Time

__all__ = ["END", "START", "AckTable", "FrontId", "MessageId", "Time"]


class AckTable:
    """The messages in flight, by cause, and how far each front has promised. Nothing is in flight below
    `start`."""

    def __init__(self, fronts: Iterable[FrontId], start: Time) -> None:
        self._in_flight: dict[Time, int] = {}
        self._causes: list[Time] = []  # a heap of the keys of _in_flight, with stale ones
        self._promised = dict.fromkeys(fronts, start)
        self._undecided: dict[WorkerId, Time] = {}
        self._minimal = start

    @property
    def fronts(self) -> Iterable[FrontId]:
        return self._promised

    @property
    def oldest(self) -> Time:
        """The oldest cause in flight; END if there is none."""
        # taken out when it comes to the top: anywhere else it would have to be looked for
        while self._causes and self._causes[0] not in self._in_flight:
            heappop(self._causes)
        return self._causes[0] if self._causes else END

    @property
    def reached(self) -> Time:
        """Nothing below it is in flight or will enter, but for what comes of transactions that are put off: of these
        something may be in flight below it again."""
        return min(self.oldest, min(self._promised.values(), default=END))

    @property
    def minimal_time(self) -> Time:
        """Nothing below it is in flight, is put off, or will ever enter."""
        oldest = min([self.reached, *self._undecided.values()])
        assert oldest >= self._minimal, f"minimal time went back from {self._minimal} to {oldest}"
        self._minimal = oldest
        return oldest

    def ack(self, cause: Time, ids: MessageId) -> None:
        """Fold in what a front sent, or what a worker received and sent on."""
        # Two links have no order: a receiver's ack may come before the sender's, and waits for it as an
        # entry.
        before = self._in_flight.pop(cause, None)
        # zero: all that was sent under it has been processed, and it is gone
        left = ids if before is None else before ^ ids
        if left:
            self._in_flight[cause] = left
            if before is None:
                heappush(self._causes, cause)

    def put_off(self, worker: WorkerId, time: Time) -> None:
        """The lowest transaction that a worker has put off is of `time`; END: it has none any more."""
        if time == END:
            self._undecided.pop(worker, None)
        else:
            self._undecided[worker] = time

    def stuck(self) -> list[WorkerId]:
        """Workers whose lowest transaction nothing else can change."""
        if not self._undecided:
            return []
        reached = self.reached
        return [worker for worker, time in self._undecided.items() if time < reached]

    def promise(self, front: FrontId, time: Time) -> None:
        """The front will stamp nothing below `time`. An older promise is a reordered message and says nothing
        new."""
        self._promised[front] = max(self._promised[front], time)

    def promised(self, front: FrontId) -> Time:
        """The newest promise of `front`."""
        return self._promised[front]
