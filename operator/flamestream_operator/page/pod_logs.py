"""The logs of a job's pods, as the API server has them, merged in time with what its coordinator has said.

Keeps: the newest TAIL lines of MOST_PODS pods, and MOST_BYTES of each; the same lines are read once in FRESH seconds,
however many look; PODS_AT_ONCE pods are asked at a time. Does not: know who may look (door.py).
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

from flamestream.ui.log_files import Wanted, newest, sifted
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import ROLE, Object

TAIL: Final = 1000
MOST_BYTES: Final = 1 << 20
MOST_PODS: Final = 16
MOST_KEPT: Final = 32
PODS_AT_ONCE: Final = 4
FRESH: Final = 2.0
COORDINATOR: Final = "coordinator"


class Logs(Protocol):
    """The part of the API server that is asked."""

    async def log_lines(
        self, namespace: str, pod: str, container: str, *, tail: int | None, most: int
    ) -> list[str]: ...


class PodLogs:
    """A reader of all jobs' logs, which all who look share."""

    def __init__(self, api: Logs) -> None:
        self._api = api
        self._room = asyncio.Semaphore(PODS_AT_ONCE)
        self._kept: dict[str, tuple[float, asyncio.Task[list[str]]]] = {}

    async def merged(
        self, pods: Sequence[Object], said: Sequence[str], wanted: Wanted
    ) -> list[dict[str, Any]]:
        """The newest lines that are wanted, of `pods` and of what a coordinator has `said`."""
        read = sorted(pods, key=lambda pod: (pod["metadata"]["labels"].get(ROLE) != "driver", _name(pod)))
        texts = await asyncio.gather(*(self._lines(pod) for pod in read[:MOST_PODS]))
        logs = [(COORDINATOR, said), *zip(map(_name, read), texts, strict=False)]
        # Beside the loop of all jobs: a search through some MB of text takes its time.
        return await asyncio.to_thread(
            lambda: newest((line for process, log in logs for line in sifted(process, log, wanted)), wanted)
        )

    async def _lines(self, pod: Object) -> list[str]:
        key, now = str(pod["metadata"]["uid"]), time.monotonic()
        known = self._kept.get(key)
        if known is None or now - known[0] > FRESH:
            self._kept.pop(key, None)
            known = self._kept[key] = now, asyncio.create_task(self._read(pod))
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        # Somebody who goes away must not take it from others who wait for the same.
        return await asyncio.shield(known[1])

    async def _read(self, pod: Object) -> list[str]:
        """Its lines; if nobody gives them, a line that says so."""
        namespace, container = pod["metadata"]["namespace"], pod["spec"]["containers"][0]["name"]
        async with self._room:
            try:
                return await self._api.log_lines(namespace, _name(pod), container, tail=TAIL, most=MOST_BYTES)
            except ApiProblem as problem:
                return [f"the log of this pod cannot be read: {problem}"]


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])
