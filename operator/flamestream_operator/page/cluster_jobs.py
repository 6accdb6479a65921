"""The jobs of a cluster, as the operator that leads knows them: objects that it watches, and what coordinators say.

A job is called NAMESPACE.NAME. Its list and its status cost the API server nothing; a log, a graph and a drill are
asked of it, a snapshot of the job's store.

Keeps: a list is made once a look, however many look; rows and lists are bounded. Does not: know who may look (door.py),
take samples (coordination/hours.py has them), or decide anything about a job.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from flamestream.job.drills.status import OVER
from flamestream.job.exit_codes import ExitCode
from flamestream.job.status import JobStatus
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.errors import FlameStreamError
from flamestream.node.samples import Sample
from flamestream.store.snapshot_index import summary_of
from flamestream.ui.asked import seconds_in, wanted, word_in
from flamestream.ui.commands import now
from flamestream.ui.marks import Mark
from flamestream.ui.source import Kind, Ran, Refused, Row, row_of
from flamestream_operator.coordination.hosting import Hosting
from flamestream_operator.jobs.decide import status_of
from flamestream_operator.jobs.reading_pods import ReadingPods
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Cluster, key_of
from flamestream_operator.objects.meta import ROLE, Object, identity, own_name, part
from flamestream_operator.page.history import History
from flamestream_operator.page.pod_logs import Logs, PodLogs
from flamestream_operator.page.shown import (
    CODES,
    VICTIMS,
    audit_of,
    audit_of_drill,
    audit_of_terminal,
    drill_of,
    drill_status,
    is_audit,
    left_at,
    made_at,
    mark_of_recovery,
    micros,
    row_of_object,
    savepoints_of,
)
from flamestream_operator.page.traced_items import TracedItems

ANSWERS_WITHIN: Final = 10.0
FRESH: Final = 2.0
"""Seconds for which a snapshot that was read counts as the newest."""
MOST_KEPT: Final = 64
SEEN_WITHIN: Final = 30.0
"""Seconds in which the watch brings what was made here, or it is gone."""
HEAD: Final = 256 << 10
"""Bytes of a driver's log in which its graph is looked for: it is among the first lines."""
RUNNING: Final = ("Starting", "Running", "Recovering", "Suspending", "Upgrading")
_STARTED: Final[tuple[Kind, ...]] = ("audit", "drill")


class Api(Logs, Protocol):
    """The part of the API server that is asked."""

    async def create(self, thing: Object, *, dry_run: bool = False) -> Object: ...


class ClusterJobs:
    """`ui.source.JobSource`. `drills`: whether this operator carries drills out; `actions`: whether the page may start
    one."""

    namespaced = True
    victims: Final = VICTIMS

    def __init__(
        self,
        cluster: Cluster,
        hosting: Callable[[], Hosting | None],
        readers: Callable[[], ReadingPods | None],
        api: Api,
        history: History,
        *,
        drills: bool,
        actions: bool,
    ) -> None:
        """`hosting` gives the coordinators of this process, `readers` what makes pods beside jobs; None while it does
        not lead."""
        self._cluster, self._hosting, self._api, self._history = cluster, hosting, api, history
        self.actions = actions and drills
        looks: tuple[Kind, ...] = ("item",) if self.actions else ()  # a pod is made for it
        self.kinds: tuple[Kind, ...] = ("graph", "snapshots", *looks, *(("audit", "drill") if drills else ()))
        self._items = TracedItems(cluster, api, readers)
        self._logs = PodLogs(api)
        self._looks = 0
        self._listed: tuple[int, list[Row]] = (-1, [])
        self._graphs: dict[str, Ran] = {}
        """Graphs, by the uid of the driver pod that has logged each."""
        self._snapshots: dict[str, tuple[float, Ran]] = {}
        self._made: dict[str, tuple[float, Object]] = {}
        """The last drill of each job that was made here, and when, until the watch has seen it; an audit is one."""

    def look(self) -> None:
        """Figures are as of the coordinators' last word."""
        self._looks += 1

    def rows(self) -> Sequence[Row]:
        """All jobs, by name."""
        if self._listed[0] != self._looks:
            audits = self._audits()
            found = sorted(self._cluster.jobs, key=own_name)
            self._listed = self._looks, [self._row(job, audits.get(own_name(job), "")) for job in found]
        return self._listed[1]

    def status(self, job: str) -> dict[str, Any]:
        """The document that `flamestream status --json` prints, as far as it has a meaning for a job of a cluster."""
        thing = self._job(job)
        resource, status = status_of(thing), self._said(job)
        return {
            "state": f"{resource.phase}: {resource.message}" if resource.message else resource.phase,
            "running": resource.phase in RUNNING,
            "coordinator_alive": status is not None or resource.phase not in RUNNING,
            "pids": {},
            "status": msgspec.to_builtins(status) if status else None,
        }

    def version(self, job: str) -> int:
        """A number that is another when `status` is: twice a second where a coordinator tells."""
        thing = self._job(job)
        told = self._looks // 2 if self._said(job) is not None else 0
        return hash((told, thing["metadata"].get("resourceVersion")))

    def samples(self, job: str, behind: int = 0) -> list[Sample]:
        """The last hour, as far as this leader has coordinated it; nothing of a job of this name before it."""
        made = micros(str(self._job(job)["metadata"].get("creationTimestamp") or ""))
        hosting = self._hosting()
        return [] if hosting is None else hosting.samples(job, max(made, behind))

    def marks(self, job: str) -> list[Mark]:
        """Marks from its coordinators in this process; of what was before them, the last recovery."""
        thing = self._job(job)
        marks, last = self._history.marks(job, identity(thing)), mark_of_recovery(status_of(thing))
        if last is None or any(mark.attempt >= last.attempt for mark in marks):
            return marks
        return sorted([*marks, last], key=lambda mark: mark.at)

    async def logs(self, job: str, asked: dict[str, str]) -> list[dict[str, Any]]:
        """Lines of its pods and its coordinator."""
        thing, lines = self._job(job), wanted(asked)
        pods = self._cluster.pods_of(key_of(thing))
        return await self._logs.merged(pods, self._history.lines(job, identity(thing)), lines)

    async def answer(self, job: str, kind: Kind, asked: dict[str, str]) -> Ran:
        """Its graph, as its driver has logged it; its snapshots; or what the last look for an item has found."""
        thing = self._job(job)
        if kind == "item":
            return self._items.ran(job, asked.get("text", ""), asked.get("sink", ""))
        return await (self._graph(thing) if kind == "graph" else self._snapshot(job, thing))

    async def start(self, job: str, kind: Kind, asked: dict[str, str], *, by: str) -> Ran:
        """Make a FlameStreamDrill; one that breaks nothing is an audit. Or a pod that traces an item."""
        if not self.actions:
            raise Refused(403, "this page may only look: ui.actions in the chart's values lets it act")
        thing = self._job(job)
        if kind == "item":
            return self._items.start(job, key_of(thing), asked.get("text", ""), asked.get("sink", ""))
        if any(self.ran(job, each).state == "running" for each in _STARTED):
            raise Refused(409, "a drill or an audit of this job is under way")
        if kind == "audit":
            drill = audit_of(thing, by, formal=asked.get("definitions") == "yes")
        else:
            drill = drill_of(thing, word_in(asked, "kill"), seconds_in(asked), by)
        try:
            made = await self._api.create(drill)
        except ApiProblem as problem:
            raise Refused(problem.status if 400 <= problem.status < 500 else 503, str(problem)) from problem
        # Not into the cache (!): what the watch brings then would be no news, and nobody would take the drill up.
        self._made[job] = time.monotonic(), made
        return self.ran(job, kind)

    def ran(self, job: str, kind: Kind) -> Ran:
        """The newest drill of a job, or the newest audit, whoever made it: a drill has it, or the job's object."""
        thing = self._job(job)
        of_kind = [each for each in self._drills(thing) if _has(each, kind)]
        newest = max(of_kind, key=made_at, default=None)
        if kind == "audit":
            drilled = Ran() if newest is None else audit_of_drill(newest)
            typed = audit_of_terminal(thing)
            return typed if drilled.state != "running" and typed.ended > drilled.ended else drilled
        if newest is None:
            return Ran()
        status, began = drill_status(newest), micros(str(newest["metadata"].get("creationTimestamp") or ""))
        if status.phase not in OVER:
            return Ran(state="running", began=began)
        code = CODES.get(status.phase, ExitCode.UNPROVEN)
        ended = micros(status.finished_at)
        return Ran(state="done", began=began, ended=ended, code=int(code), answer=msgspec.to_builtins(status))

    async def close(self) -> None:
        """End the looks for items."""
        await self._items.close()

    # --- what there is --------------------------------------------------------------------------------------

    def _said(self, job: str) -> JobStatus | None:
        """The word of its coordinator now; None: this process does not coordinate it."""
        hosting = self._hosting()
        return hosting.status(job) if hosting is not None else None

    def _job(self, job: str) -> Object:
        namespace, _, name = job.partition(".")
        if (found := self._cluster.jobs.get((namespace, name))) is None:
            raise Refused(404, f"there is no job {job!r} in this cluster, or it is not watched")
        return found

    def _drills(self, job: Object) -> list[Object]:
        key = key_of(job)
        seen = [
            drill
            for drill in self._cluster.drills
            if (drill["metadata"].get("namespace"), part(drill, "spec", "job")) == key
        ]
        when, made = self._made.get(own_name(job), (0.0, None))
        if made is None:
            return seen
        names = {drill["metadata"]["name"] for drill in seen}
        if made["metadata"]["name"] in names or time.monotonic() - when > SEEN_WITHIN:
            del self._made[own_name(job)]
            return seen
        return [*seen, made]

    def _audits(self) -> dict[str, str]:
        """The verdict of the last audit of each job that had one."""
        found: dict[str, tuple[int, bool]] = {}
        for job in self._cluster.jobs:
            if (left := left_at(job)) is not None:
                found[own_name(job)] = left.ended, left.audit.clean
        for drill in sorted(self._cluster.drills, key=made_at):
            status = drill_status(drill)
            if status.audit is not None:
                job_name = f"{drill['metadata'].get('namespace')}.{part(drill, 'spec', 'job')}"
                verdict = micros(status.finished_at), status.audit.clean
                found[job_name] = max(found.get(job_name, verdict), verdict, key=lambda each: each[0])
        return {job_name: "clean" if clean else "differs" for job_name, (_, clean) in found.items()}

    def _row(self, job: Object, audit: str) -> Row:
        resource, name = status_of(job), own_name(job)
        guarantee = resource.guarantee or str(part(job, "spec", "guarantee") or "")
        running, status = resource.phase in RUNNING, self._said(name)
        if status is not None and running:
            return row_of(name, status, phase=resource.phase, running=True, guarantee=guarantee, audit=audit)
        return row_of_object(name, resource, running=running, guarantee=guarantee, audit=audit)

    # --- answers --------------------------------------------------------------------------------------------

    async def _graph(self, job: Object) -> Ran:
        drivers = [
            pod
            for pod in self._cluster.pods_of(key_of(job))
            if pod["metadata"]["labels"].get(ROLE) == "driver" and part(pod, "status", "phase") == "Running"
        ]
        began = now()
        for pod in sorted(drivers, key=made_at, reverse=True):
            uid = str(pod["metadata"]["uid"])
            if uid not in self._graphs and (plan := await self._plan(pod)) is not None:
                self._graphs[uid] = Ran(state="done", began=began, ended=now(), answer=plan)
                while len(self._graphs) > MOST_KEPT:
                    del self._graphs[next(iter(self._graphs))]
            if uid in self._graphs:
                return self._graphs[uid]
        return _failed(
            began, "no driver of this job has said its graph yet: it does when it has loaded the application"
        )

    async def _plan(self, pod: Object) -> Any:
        """The graph that a driver has logged; None: it has not yet."""
        namespace, name = key_of(pod)
        try:
            lines = await self._api.log_lines(
                namespace, name, pod["spec"]["containers"][0]["name"], tail=None, most=HEAD
            )
        except ApiProblem as problem:
            raise Refused(503, f"the log of driver {name} cannot be read: {problem}") from problem
        for text in lines:
            try:
                line = from_json(text)
            except DecodeError:
                continue
            if isinstance(line, dict) and line.get("event") == "graph" and isinstance(line.get("plan"), dict):
                return line["plan"]
        return None

    async def _snapshot(self, job: str, thing: Object) -> Ran:
        known = self._snapshots.get(job)
        if known is not None and time.monotonic() - known[0] < FRESH:
            return known[1]
        began, listed, hosting = now(), savepoints_of(thing, self._cluster), self._hosting()
        if hosting is None:
            raise Refused(503, "this operator does not lead any more: try again")
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                found = await asyncio.wrap_future(hosting.committed(job))
        except FlameStreamError as error:
            if not listed:
                return _failed(began, str(error))
            found = None
        except TimeoutError:
            return _failed(began, f"the job's store has not answered within {ANSWERS_WITHIN:g} s")
        listed += [] if found is None else [summary_of(*found)]
        ran = Ran(state="done", began=began, ended=now(), answer=listed)
        self._snapshots[job] = time.monotonic(), ran
        while len(self._snapshots) > MOST_KEPT:
            del self._snapshots[next(iter(self._snapshots))]
        return ran


def _has(drill: Object, kind: Kind) -> bool:
    """Whether a drill is one that a view of this kind shows: an audit's also shows a drill's that has audited."""
    if kind == "audit":
        return is_audit(drill) or drill_status(drill).audit is not None
    return not is_audit(drill)


def _failed(began: int, message: str) -> Ran:
    answer = {"error": {"category": "retryable", "message": message}}
    return Ran(state="done", began=began, ended=now(), code=int(ExitCode.UNAVAILABLE), answer=answer)
