"""Viewers: browsers that are told what changes, as server-sent events.

What a viewer has not taken yet is replaced by what is newer, so one that reads slowly sees fewer states, and one that
reads nothing costs a status. Each is written to by a task of its own, and let go if it takes nothing for a while.

| event | says |
|---|---|
| jobs | the rows of jobs that are new or have changed, and the names of those that are gone |
| status | a job's status, as `status --json` has it |
| figures | samples and marks of a job that were not told before |

Keeps: at most MOST viewers; a state is encoded once for all. Does not: know who may look (door.py).
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from flamestream.node.samples import Sample
from flamestream.ui.marks import Mark
from flamestream.ui.source import JobSource, Refused, Row

T = TypeVar("T")
MOST: Final = 64
LOOK: Final = 0.25
"""Seconds between two looks."""
ROWS_EVERY: Final = 4
"""Looks between two tellings of the list of jobs."""
MOST_FIGURES: Final = 256


class Viewer:
    """Somebody who looks at a job, or at the list of all (`job` is "") that they see."""

    def __init__(self, job: str, sees: Callable[[str], bool], caller: str) -> None:
        self.job, self.sees, self.caller = job, sees, caller
        self.version = -1
        self.rows: dict[str, Row] = {}
        """The rows that it has been told."""
        self.sample = 0
        self.marks = (0, "")
        """How many marks it has been told, and the moment of the newest."""
        self._waiting: dict[str, bytes] = {}
        self._there = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether it has taken all that it was told."""
        return not self._waiting

    def tell(self, event: str, data: bytes) -> None:
        """Tell it in place of what it has not taken yet."""
        self._waiting[event] = data
        self._there.set()

    async def told(self) -> bytes:
        """The next events, as they are sent."""
        await self._there.wait()
        waiting, self._waiting = self._waiting, {}
        self._there.clear()
        return b"".join(b"event: %s\ndata: %s\n\n" % (name.encode(), data) for name, data in waiting.items())


class Viewers:
    """All viewers of one source, at most `most_of_one` of the same caller."""

    def __init__(self, source: JobSource, most_of_one: int = MOST) -> None:
        self._source, self._most_of_one = source, most_of_one
        self._all: set[Viewer] = set()
        self._looks = 0

    def enter(self, job: str, sees: Callable[[str], bool], caller: str) -> Viewer:
        """A new one. Raises Refused if there is no room, or no such job."""
        if len(self._all) >= MOST:
            raise Refused(503, f"{MOST} viewers look already: close a view, or come again when one has gone")
        if sum(viewer.caller == caller for viewer in self._all) >= self._most_of_one:
            raise Refused(429, f"{self._most_of_one} views of yours are open already: close one")
        if job:
            self._source.version(job)
        self._all.add(viewer := Viewer(job, sees, caller))
        self._tell(viewer, {})
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._all.discard(viewer)

    async def turn(self) -> None:
        """Look and tell, until it is cancelled."""
        while True:
            self._source.look()
            self._looks += 1
            encoded: dict[tuple[str, int], bytes] = {}
            for viewer in list(self._all):
                self._tell(viewer, encoded)
            await asyncio.sleep(LOOK)

    def _tell(self, viewer: Viewer, encoded: dict[tuple[str, int], bytes]) -> None:
        """Tell a viewer what is new to it. What it has not taken yet is left to it (!): else it would miss a part."""
        if not viewer.idle:
            return
        if not viewer.job:
            if self._looks % ROWS_EVERY == 0 or not viewer.rows:
                self._tell_rows(viewer)
            return
        try:
            self._tell_job(viewer, encoded)
        except Refused as refused:
            viewer.tell("gone", msgspec.json.encode({"error": str(refused)}))

    def _tell_rows(self, viewer: Viewer) -> None:
        rows = {row.job: row for row in self._source.rows() if viewer.sees(row.job)}
        changed = [row for name, row in rows.items() if viewer.rows.get(name) != row]
        gone = sorted(viewer.rows.keys() - rows.keys())
        if changed or gone or not viewer.rows:
            viewer.tell("jobs", msgspec.json.encode({"rows": changed, "gone": gone}))
        viewer.rows = rows

    def _tell_job(self, viewer: Viewer, encoded: dict[tuple[str, int], bytes]) -> None:
        job = viewer.job
        if (version := self._source.version(job)) == viewer.version:
            return
        if (job, version) not in encoded:
            encoded[job, version] = msgspec.json.encode(self._source.status(job))
        viewer.tell("status", encoded[job, version])
        viewer.version = version
        new, marks = self._source.samples(job, viewer.sample)[-MOST_FIGURES:], self._source.marks(job)
        known = len(marks), marks[-1].at if marks else ""
        if new or known != viewer.marks:
            viewer.tell("figures", figures(new, marks))
            viewer.sample, viewer.marks = new[-1].at if new else viewer.sample, known


def figures(samples: Iterable[Sample], marks: Iterable[Mark]) -> bytes:
    """Samples and marks as JSON."""
    return msgspec.json.encode(
        {"columns": Sample.__struct_fields__, "samples": list(samples), "marks": list(marks)}
    )
