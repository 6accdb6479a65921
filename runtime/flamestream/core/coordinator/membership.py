"""Membership: which workers may take part, which are connected, when each was last heard, and who of a layout is
lost.

Workers are connected to the coordinator, not registered by Spark: workers of one job may live in several
Spark applications. A worker that is connected and has no part in the layout is a standby.

Keeps: a worker counts as connected from its Hello until its connection ends, it is silent for too long, or
somebody who must know says that it is gone; what is remembered of workers that left is bounded by the layout.
Does not: decide what follows from a loss (takeover.py, coordinator.py).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol.inventory import alike
from flamestream.core.protocol.messages import Hello, Progress
from flamestream.model.ids import WorkerId
from flamestream.model.time import Instant

RECENT_US: Final = 300_000
"""A few heartbeats: who was heard so long before another is as alive."""
EDITED: Final = (
    "the application's files were edited while the job runs, and it has loaded other code: put them back, or "
    "go on with them by `flamestream upgrade`"
)


@dataclass(slots=True)
class Member:
    """A connected worker."""

    hello: Hello
    heard: Instant
    since: Instant
    """The moment at which it connected."""
    progress: Progress | None = None
    """Its newest report under the current fence."""
    reports: bool = False
    """Whether it has sent a heartbeat on this connection: from then on silence means something, also a
    standby's."""
    warm: bool = False
    """Whether it has a committed snapshot at hand, by its newest heartbeat."""
    problem: str = ""
    """Its lasting trouble, by the same."""


class Membership:
    """The connected workers."""

    def __init__(self) -> None:
        self._members: dict[WorkerId, Member] = {}
        self._left: dict[WorkerId, Instant] = {}
        self._gone: set[WorkerId] = set()
        self.code = ""
        """Digest of the application that takes part; whoever has loaded another one takes part in nothing.
        "": nobody said."""

    def __contains__(self, worker: WorkerId) -> bool:
        return worker in self._members

    def __getitem__(self, worker: WorkerId) -> Member:
        return self._members[worker]

    @property
    def connected(self) -> list[WorkerId]:
        return sorted(self._members)

    def vocabulary(self, worker: WorkerId) -> str:
        """Digest of the messages between workers that a connected one knows."""
        return self._members[worker].hello.vocabulary

    def connect(self, hello: Hello, now: Instant) -> None:
        """A worker says who it is. A second connection of the same one replaces the first."""
        self._members[hello.worker] = Member(hello, now, now)
        self._left.pop(hello.worker, None)
        # it is here, whatever was said of it
        self._gone.discard(hello.worker)

    def leave(self, worker: WorkerId, now: Instant) -> None:
        """A worker's connection has ended."""
        # once: a second word on the same end must not move the moment of the loss
        if self._members.pop(worker, None):
            self._left[worker] = now

    def gone(self, worker: WorkerId, now: Instant) -> None:
        """A worker's process has ended: waiting for it is vain."""
        self.leave(worker, now)
        self._gone.add(worker)

    def heard(self, worker: WorkerId, now: Instant, report: Progress | None = None) -> None:
        """Any message is a sign of life; a report, of whatever fence, also tells who could take over at
        once."""
        if member := self._members.get(worker):
            member.heard = now
            if report is not None:
                member.reports, member.warm, member.problem = True, report.warm, report.problem

    def expect(self, workers: Iterable[WorkerId], now: Instant) -> None:
        """Workers are part of a new attempt: their silence counts from now, and their progress starts
        anew."""
        for worker in workers:
            if member := self._members.get(worker):
                member.heard, member.progress = now, None

    def lost(self, workers: Iterable[WorkerId]) -> list[WorkerId]:
        """The workers that are not connected."""
        return [worker for worker in workers if worker not in self._members]

    def lost_since(self, workers: Iterable[WorkerId], now: Instant) -> Instant:
        """The moment at which the first of those that are not connected left; `now` if none has."""
        return min((self._left.get(worker, now) for worker in self.lost(workers)), default=now)

    def all_gone(self, workers: Iterable[WorkerId]) -> bool:
        """Whether nobody of those that are not connected can come back."""
        return all(worker in self._gone for worker in self.lost(workers))

    def of(self, code: str) -> list[WorkerId]:
        """Connected workers that have loaded the application with digest `code`."""
        return [worker for worker, member in self._members.items() if _has(member, code)]

    def dismiss(self, codes: Collection[str]) -> list[WorkerId]:
        """Those that have loaded none of the applications with these digests are no longer members."""
        others = [worker for worker, it in self._members.items() if it.hello.code not in {"", *codes}]
        for worker in others:
            del self._members[worker]
        return sorted(others)

    def standbys(self, layout: Collection[WorkerId]) -> list[WorkerId]:
        """All connected workers without a part in `layout`, of whatever application."""
        return [worker for worker in self._members if worker not in layout]

    def spares(self, layout: Collection[WorkerId], code: str | None = None) -> list[WorkerId]:
        """Connected workers without a part in `layout`, which have its application (or that with digest
        `code`): those heard last first, so that a paused one is not preferred; of those that are heard of all
        the time, first those that have the state at hand."""
        wanted = self.code if code is None else code
        found = {
            worker: member
            for worker, member in self._members.items()
            if worker not in layout and _has(member, wanted)
        }
        newest = max((member.heard for member in found.values()), default=0)

        def rank(worker: WorkerId) -> tuple[bool, bool, int, WorkerId]:
            member = found[worker]
            return newest - member.heard > RECENT_US, not member.warm, -member.heard, worker

        return sorted(found, key=rank)

    def silent_spares(self, layout: Collection[WorkerId], before: Instant) -> list[WorkerId]:
        """Standbys of which nothing was heard since, though they had reported."""
        return [
            worker
            for worker in self.standbys(layout)
            if self._members[worker].reports and self._members[worker].heard <= before
        ]

    def progress(self, workers: Iterable[WorkerId]) -> list[Progress | None]:
        """The newest report of each worker, None where there is none yet."""
        return [self._members[worker].progress if worker in self._members else None for worker in workers]

    def forget_all_but(self, layout: Collection[WorkerId]) -> None:
        """Forget workers that left, unless they are of `layout`."""
        self._left = {worker: left for worker, left in self._left.items() if worker in layout}
        self._gone &= set(layout)  # or names of workers that are never used again would pile up


def _has(member: Member, code: str) -> bool:
    return not code or member.hello.code in ("", code)


def differs(hello: Hello, settings: Settings) -> str:
    """The reason why a worker cannot take part; "" if it can."""
    for what, theirs, ours in (
        ("Python", hello.python, settings.python),
        ("graph", hello.graph, settings.graph),
    ):
        if theirs != ours:
            return f"its {what} is {theirs!r}, the job's is {ours!r}; start it with that"
    if settings.code and hello.code and hello.code != settings.code:
        return EDITED
    if not alike(hello.inventory, settings.inventory):
        # (!) Rows under another name would be found by nobody.
        return (
            f"its graph has {hello.inventory}, the job's {settings.inventory}: the names of functions must be "
            "the same in every process; give operations with state name="
        )
    return ""
