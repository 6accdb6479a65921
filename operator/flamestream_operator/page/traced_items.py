"""Items that somebody looks for on a cluster's page: each is traced by a pod beside its job, whose last line is the
answer.

Keeps: a pod for each look, MOST_AT_ONCE of them and one a job; it is removed when it has answered or SECONDS are over,
and one that an operator before this one has left, at the next look at its job; MOST_KEPT answers of MOST_BYTES. Does
not: know who may look (door.py), or how such a pod is made (jobs/reading_pods.py).
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any, Final

from flamestream.job.exit_codes import ExitCode
from flamestream.model.decoding import DecodeError, from_json
from flamestream.ui.commands import now
from flamestream.ui.source import Ran, Refused
from flamestream_operator.jobs.observed import phase_of
from flamestream_operator.jobs.reading_pods import ReadingPods
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Cluster, Key, key_of
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import ROLE
from flamestream_operator.page.pod_logs import Logs

MOST_AT_ONCE: Final = 4
MOST_KEPT: Final = 32
MOST_BYTES: Final = 2 << 20
SECONDS: Final = 180.0
"""Time in which a pod has to answer, with its start."""
POLL: Final = 0.25
"""Seconds between two looks at what the watch has brought."""
LINES: Final = 50
"""Lines of a pod's log in which its answer is looked for: what the application prints may stand before it."""
LONGEST_TEXT: Final = 1000
LIMIT: Final = 20

Look = tuple[str, str, str]
"""A job, the text that is in the item, and the sink ("": any)."""

log = logging.getLogger(__name__)


class TracedItems:
    """The looks of one replica of the operator."""

    def __init__(self, cluster: Cluster, api: Logs, pods: Callable[[], ReadingPods | None]) -> None:
        """`pods` makes them; None while this process does not lead."""
        self._cluster, self._api, self._pods = cluster, api, pods
        self._kept: dict[Look, Ran] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Those under way, by job."""

    def ran(self, job: str, text: str, sink: str) -> Ran:
        """The last look for this, if one was made."""
        return self._kept.get((job, text, sink), Ran())

    def start(self, job: str, key: Key, text: str, sink: str) -> Ran:
        """Look for it. Raises Refused."""
        if not text or len(text) > LONGEST_TEXT or len(sink) > LONGEST_TEXT:
            raise Refused(400, f"say which text is in the item, of at most {LONGEST_TEXT:,} characters")
        if (pods := self._pods()) is None:
            raise Refused(503, "this operator does not lead any more: try again")
        if job in self._tasks:
            raise Refused(409, "somebody looks for an item of this job already")
        if len(self._tasks) >= MOST_AT_ONCE:
            raise Refused(503, "too many look for items: try again")
        self._keep((job, text, sink), Ran(state="running", began=now()))
        task = asyncio.create_task(self._to_the_end(pods, (job, text, sink), key))
        self._tasks[job] = task
        task.add_done_callback(lambda _: self._tasks.pop(job))
        return self._kept[job, text, sink]

    async def close(self) -> None:
        """End those that are under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, look: Look, ran: Ran) -> None:
        self._kept.pop(look, None)
        self._kept[look] = ran
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    async def _to_the_end(self, pods: ReadingPods, look: Look, key: Key) -> None:
        began, failed = self._kept[look].began, ""
        name = names.trace(key[1], secrets.token_hex(3))
        answer: Any = None
        try:
            await self._sweep(pods, key)
            # A text may begin with "-": it is no option.
            arguments = [f"--sink={look[2]}", f"--limit={LIMIT}", "--", look[1]]
            if not await pods.trace(key, name, arguments):
                failed = "this job was not launched, or this operator has not looked at it yet: try again"
            else:
                answer = await self._answer(key, name)
        except ApiProblem as problem:
            failed = f"the API server: {problem}"
        except TimeoutError:
            failed = f"pod {name} has not answered within {SECONDS:g} s: has the cluster room for it?"
        finally:
            await self._remove(pods, key[0], name)
        if not isinstance(answer, list) and "error" not in (answer or {}):
            answer = _problem(failed or f"pod {name} has ended without an answer")
        code = ExitCode.OK if isinstance(answer, list) else ExitCode.UNAVAILABLE
        self._keep(look, Ran(state="done", began=began, ended=now(), code=int(code), answer=answer))

    async def _answer(self, key: Key, name: str) -> Any:
        """The last line of its log that is a document, when it has ended."""
        async with asyncio.timeout(SECONDS):
            while not self._is_over(key, name):
                await asyncio.sleep(POLL)
            lines = await self._api.log_lines(key[0], name, "trace", tail=LINES, most=MOST_BYTES)
        for line in reversed(lines):
            if line.startswith("{"):
                try:
                    found = from_json(line, dict[str, Any])
                except DecodeError:
                    return None
                return found.get("traced", found)
        return None

    def _is_over(self, key: Key, name: str) -> bool:
        pods = (pod for pod in self._cluster.pods_of(key) if pod["metadata"]["name"] == name)
        return any(phase_of(pod) in ("Succeeded", "Failed") for pod in pods)

    async def _sweep(self, pods: ReadingPods, key: Key) -> None:
        """Those of this job that an operator before this one has left: of its own there is none now."""
        for pod in self._cluster.pods_of(key):
            if pod["metadata"]["labels"].get(ROLE) == "trace":
                await pods.remove(*key_of(pod))

    async def _remove(self, pods: ReadingPods, namespace: str, name: str) -> None:
        try:
            await pods.remove(namespace, name)
        except ApiProblem as problem:  # it ends by itself, and the next look removes it
            log.warning("a pod that traced is left", extra={"pod": name, "problem": str(problem)})


def _problem(message: str) -> dict[str, Any]:
    return {"error": {"category": "retryable", "message": message}}
