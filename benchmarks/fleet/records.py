"""The records of jobs in ZooKeeper, and when each was first seen to change."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from flamestream.core.protocol.job_record import JobRecord
from flamestream.model.decoding import from_json
from flamestream.store.zookeeper import folder_of
from fleet.places import Places

Seen = Callable[[JobRecord, JobRecord], bool]
"""Whether the second, of now, is what is waited for; the first was there when the watch began."""


def is_another_attempt(before: JobRecord, now: JobRecord) -> bool:
    """Whether a recovery was decided."""
    return now.attempt != before.attempt


class Watched:
    """One record, as it is now, and as it changes while somebody waits for that."""

    def __init__(self, client: Any, job: str) -> None:
        self._client, self._path = client, f"{folder_of(job)}/record"
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Seen, asyncio.Future[float]]] = []
        self.before = self.now = _record(client.get(self._path)[0])

    def until(self, seen: Seen) -> "asyncio.Future[float]":
        """The moment, on the monotonic clock, at which `seen` was first true."""
        found: asyncio.Future[float] = self._loop.create_future()
        self._waiting.append((seen, found))
        if len(self._waiting) == 1:
            self._look(None)
        return found

    def __str__(self) -> str:
        return f"{self._path}: {self.before} -> {self.now}"

    def _look(self, _: object) -> None:
        if not self._waiting:
            return  # who waits next looks
        # in the thread of its answers: none of them may be waited for
        moment = time.monotonic()
        self._client.get_async(self._path, watch=self._look).rawlink(
            lambda answer: self._loop.call_soon_threadsafe(self._read, answer, moment)
        )

    def _read(self, answer: Any, moment: float) -> None:
        if not answer.successful():  # its connection is another now, or its session has ended
            self._loop.call_later(0.1, self._look, None)
            return
        self.now = _record(answer.get()[0])
        for each in list(self._waiting):
            seen, found = each
            if found.done() or seen(self.before, self.now):
                self._waiting.remove(each)
                if not found.done():
                    found.set_result(moment)


class Records:
    """A session for all of them."""

    def __init__(self, places: Places) -> None:
        self._session = places.zookeeper.session(places.zookeeper.access().login)

    def watched(self, job: str) -> Watched:
        """The record of a job, as it is now and as it changes."""
        return Watched(self._session.client, job)

    def close(self) -> None:
        self._session.close()


def _record(data: bytes) -> JobRecord:
    return from_json(data, JobRecord)
