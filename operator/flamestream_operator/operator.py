"""The operator's process: watches from the start, a shard's Lease, and from then on coordinators and
reconcilers of that shard's jobs.

    start ──▶ watch (all replicas) ──▶ Lease ──▶ EndpointSlice ──▶ fresh list ──▶ reconcile, coordinate
                                                                       ──▶ Lease lost: the process ends

Keeps: nothing is written and no coordinator runs before the Lease; of other shards' jobs nothing but the
objects themselves is known. Does not: decide anything.
"""

import asyncio
import contextlib
import gc
import importlib
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import kopf
from lightkube import KubeConfig

from flamestream_operator import logs, metrics
from flamestream_operator.coordination.coordinators import Coordinators
from flamestream_operator.coordination.hosting import Hosting
from flamestream_operator.coordination.job_store import job_store
from flamestream_operator.drills.reconciler import DrillReconciler
from flamestream_operator.environment import Environment, read_environment
from flamestream_operator.http import Health
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.reading_pods import ReadingPods
from flamestream_operator.jobs.reconciler import JobReconciler
from flamestream_operator.kube.api import ApiProblem, LightkubeApi
from flamestream_operator.kube.cache import Cluster, Key, Store, key_of
from flamestream_operator.kube.lease import Leadership, end_process
from flamestream_operator.kube.lists import Lists
from flamestream_operator.kube.namespaces import Namespaces
from flamestream_operator.kube.queue import WorkQueue
from flamestream_operator.kube.readers import Readers
from flamestream_operator.kube.watches import Watches, quiet
from flamestream_operator.objects.meta import identity, part
from flamestream_operator.objects.small import build_slice
from flamestream_operator.page.history import History
from flamestream_operator.page.serving import serve_page
from flamestream_operator.savepoints.reconciler import SnapshotReconciler
from flamestream_operator.shards import name_of, shard_of

BEAT: Final = 2.0
CANARY: Final = ("", "")
"""No job has this name."""
OPENS_WITHIN: Final = 3.0
"""Seconds in which a new leader looks at each job before workers are let in: those of one that it does not know yet
would be sent away, dial again three times a second each, and be all that it is busy with."""
AGAIN: Final = 30.0
"""Seconds until a snapshot or a drill of another shard's job is looked at again."""
Reconcile = Callable[[Key], Awaitable[float | None]]

log = logging.getLogger(__name__)


MakeHosting = Callable[[Callable[[str], None], Callable[[str], str]], Hosting]
"""Makes it from `changed` and `elsewhere` (coordination/coordinators.py)."""


class Operator:
    """The operator's process: it watches, and once it has a shard's Lease it acts."""

    def __init__(
        self, env: Environment, api: LightkubeApi, make_hosting: MakeHosting, history: History
    ) -> None:
        self._env, self._api, self._make_hosting, self._history = env, api, make_hosting, history
        self._namespaces = Namespaces(env.selector)
        self._cluster = Cluster(self._keeps_pods, self._namespaces.has)
        self._lists = Lists(api, self._cluster, self._namespaces, drills=env.drills)
        self._leadership = Leadership(
            api, env.namespace, env.lease, env.pod, env.lease_seconds, end_process, env.shards
        )
        self._leads = False
        self._queues: dict[str, WorkQueue[Key]] = {}
        self._jobs: JobReconciler | None = None
        self._drills: DrillReconciler | None = None
        self._hosting: Hosting | None = None
        self._readers: ReadingPods | None = None
        self._health = Health(self._alive, self._ready, Readers(api), self._observe)
        self._watching, self._stop = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Live until a signal comes."""
        ports = [await self._health.serve(self._env.http_port)]
        if (page := self._env.page) is not None:
            ports.append(
                await serve_page(
                    page,
                    self._api,
                    self._cluster,
                    lambda: self._hosting,
                    lambda: self._readers,
                    self._history,
                    self._shown_by,
                )
            )
        stop = self._stop
        _heed(stop)
        async with asyncio.TaskGroup() as tasks:
            everything = [
                tasks.create_task(each) for each in (self._watch(stop), self._lead(), self._heart())
            ]
            await stop.wait()
            log.info("asked to end")
            # The watch ends by its flag.
            for task in everything[1:]:
                task.cancel()
            await self._hand_on(everything[1])
        for port in ports:
            await port.cleanup()

    async def _hand_on(self, leading: asyncio.Task[None]) -> None:
        """The next one need not wait until the Lease has run out. Nothing of ours acts any more."""
        await asyncio.wait([leading], timeout=1)
        if self._hosting is not None:
            await asyncio.to_thread(self._hosting.close)
        # Last (!): from here on another operator acts.
        await self._leadership.release()

    async def _watch(self, stop: asyncio.Event) -> None:
        """kopf, in both replicas."""
        changed = {kind: self._changed(kind) for kind in ("jobs", "snapshots", "drills")}
        nodes = await self._may_see_nodes()
        # Before any event (!): of a namespace that is not known yet they would be passed over.
        await self._insist("namespaces cannot be listed yet", self._lists.choose)
        watches = Watches(
            self._cluster, changed, self._application_changed, self._namespaces, self._chosen,
            nodes=nodes, drills=self._env.drills,
        )  # fmt: skip
        self._watching.set()
        await kopf.operator(
            registry=watches.registry, settings=quiet(), standalone=True, namespaces=list(self._env.watch),
            clusterwide=not self._env.watch, stop_flag=stop,
        )  # fmt: skip
        stop.set()  # it has its own handlers of signals; a failure of it is raised

    async def _may_see_nodes(self) -> bool:
        """A namespaced operator may not: then a dead node's pods go as Kubernetes removes them."""
        try:
            for node in await self._api.list_all("Node", None):
                self._cluster.nodes.put(node)
        except ApiProblem as problem:
            log.warning(
                "no right to see nodes: a dead node's pods are left to Kubernetes",
                extra={"problem": str(problem)},
            )
            return False
        return True

    async def _lead(self) -> None:
        await self._watching.wait()
        # slow: nobody shall wait for it behind the Lease
        await asyncio.to_thread(importlib.import_module, "flamestream.store.s3")
        await self._leadership.acquire()
        _heed(self._stop)  # kopf has put handlers of its own in the place, and takes its time
        self._leads = True
        log.info(
            "leads", extra={"pod": self._env.pod, "shard": self._leadership.shard, "of": self._env.shards}
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._leadership.hold())
            # First of all: workers that have lost the last leader dial already, and find us by it alone
            # (decision 040).
            await self._insist("the coordinators' address is not written yet", self._point_service)
            # behind the Lease (!): watches may be late
            await self._insist("what there is can not be listed yet", self._relist)
            self._begin()
            tasks.create_task(self._open())
            for queue in self._queues.values():
                tasks.create_task(queue.run())

    async def _open(self) -> None:
        """Let workers in, once each job was looked at for the first time."""
        assert self._hosting is not None, "begun before"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPENS_WITHIN):
                await self._queues["jobs"].served()
        self._hosting.open()

    async def _point_service(self) -> None:
        """Workers find the leader by this; nobody else's address is in it."""
        if not self._env.service:
            return
        env, service = self._env, name_of(self._env.service, self._leadership.shard)
        desired = build_slice(service=service, namespace=env.namespace, pod=env.pod, ip=env.ip, port=env.port)
        there = await self._api.get("EndpointSlice", env.namespace, service)
        if there is None:
            await self._api.create(desired)
        else:
            # As it was read: where two believe to lead, one of them is refused.
            desired["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            await self._api.replace(desired)

    async def _insist(self, text: str, work: Callable[[], Awaitable[None]]) -> None:
        """Until it works: an API server that has just learnt our kinds answers 429 for a second."""
        while True:
            try:
                return await work()
            except ApiProblem as problem:
                log.warning(text, extra={"problem": str(problem)})
                await asyncio.sleep(0.3)
                if self._leads:
                    self._leadership.check()

    async def _relist(self) -> None:
        """List afresh what there is: the watches may be behind."""
        await self._lists.replace_all(self._env.watch)

    async def _chosen(self, namespace: str) -> None:
        """A namespace is chosen by its labels from now on, or not any more: its streams run on without a coordinator,
        as they do between two leaders."""
        log.info(
            "a namespace is chosen" if self._namespaces.has(namespace) else "a namespace is let go",
            extra={"namespace": namespace},
        )
        if not self._namespaces.has(namespace):
            for key in self._cluster.release(namespace):
                self._changed("jobs")(key)
        elif self._leads:  # who does not lists everything when it does
            await self._insist(
                "what a namespace has can not be listed yet", partial(self._take_up, namespace)
            )

    async def _take_up(self, namespace: str) -> None:
        if self._namespaces.has(namespace):
            for kind, key in await self._lists.add(namespace):
                self._changed(kind)(key)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()

        def changed(job: str) -> None:
            loop.call_soon_threadsafe(jobs.changed, job)  # told in the coordinators' thread

        # Nobody calls `changed` before a job is started, which `jobs`, made below, does.
        self._hosting = hosting = self._make_hosting(changed, self._elsewhere)
        site = self._env.site_of(self._leadership.shard)
        tools = Tools(
            api=self._api, cluster=self._cluster, hosting=hosting, check=self._leadership.check,
            again=self._changed("jobs"), mine=lambda job: self._is_mine(identity(job)),
        )  # fmt: skip
        self._jobs = jobs = JobReconciler(site, tools)
        self._readers = readers = ReadingPods(jobs, site, tools)
        snapshots = SnapshotReconciler(jobs, tools)
        self._queues = {
            "jobs": WorkQueue(self._reconcile_job, "job"),
            "snapshots": WorkQueue(self._of_mine(self._cluster.snapshots, snapshots.reconcile), "snapshot"),
        }
        if self._env.drills:
            self._drills = drills = DrillReconciler(
                readers, site, tools, self._api, (self._env.namespace, self._env.pod)
            )
            self._queues["drills"] = WorkQueue(self._of_mine(self._cluster.drills, drills.reconcile), "drill")
        for kind, store in (
            ("jobs", self._cluster.jobs),
            ("snapshots", self._cluster.snapshots),
            ("drills", self._cluster.drills),
        ):
            for thing in store:
                self._changed(kind)(key_of(thing))

    # --- shards ---------------------------------------------------------------------------------------------

    def _is_mine(self, job: str) -> bool:
        """Whether the job of this identity is of the shard that this process leads."""
        return self._leads and shard_of(job, self._env.shards) == self._leadership.shard

    def _identity(self, key: Key) -> str:
        job = self._cluster.jobs.get(key)
        return identity(job) if job is not None else ".".join(key)

    def _keeps_pods(self, job: Key) -> bool:
        """Those of a job that goes on with another's work as well: it becomes that one's shard's."""
        takes_over = part(self._cluster.jobs.get(job), "spec", "takeOver") is not None
        its = self._leads and self._namespaces.has(job[0])
        return its and (takes_over or self._is_mine(self._identity(job)))

    def _elsewhere(self, job: str) -> str:
        """The address of the leader that the job of this identity has; "": this one is it, or none is known."""
        shard = shard_of(job, self._env.shards)
        elsewhere = self._env.service and shard != self._leadership.shard
        return self._env.address_of(shard) if elsewhere else ""

    def _shown_by(self, job: str) -> str | None:
        """The Service whose leader has a job to show ("": all of them, which any leader has); None: this process."""
        namespace, _, name = job.partition(".")
        its = self._identity((namespace, name)) if job else ""
        if self._hosting is not None and (not job or self._is_mine(its)):
            return None
        return name_of(self._env.service, shard_of(its, self._env.shards) if job else 0)

    def _of_mine(self, store: Store, reconcile: Reconcile) -> Reconcile:
        """For objects that name a job of this shard. Others are looked at again: a job may come to be one."""

        async def reconcile_mine(key: Key) -> float | None:
            thing = store.get(key)
            job = (key[0], str(part(thing, "spec", "job") or ""))
            return await reconcile(key) if thing is None or self._is_mine(self._identity(job)) else AGAIN

        return reconcile_mine

    # --- changes --------------------------------------------------------------------------------------------

    def _changed(self, kind: str) -> Callable[[Key], None]:
        def add(key: Key) -> None:
            queue = self._queues.get(kind)
            # Before the Lease there is nothing to do, and then everything is looked at; so with a namespace whose list
            # is on its way. One that was let go is looked at, to end what is known of it.
            if queue is not None and self._is_known(key[0]):
                queue.add(key)

        return add

    def _is_known(self, namespace: str) -> bool:
        return self._namespaces.is_complete(namespace) or not self._namespaces.has(namespace)

    def _application_changed(self, namespace: str, name: str) -> None:
        if self._jobs is not None:
            self._jobs.application_changed(namespace, name)

    # --- probes ---------------------------------------------------------------------------------------------

    async def _heart(self) -> None:
        """A marker through the queue of jobs, once this process leads: a loop that is stuck does not hand it
        on."""
        while True:
            if "jobs" in self._queues:
                metrics.count_phases(
                    str((job.get("status") or {}).get("phase", "Pending"))
                    for job in self._cluster.jobs
                    if self._is_mine(identity(job))
                )
                self._queues["jobs"].add(CANARY)
            else:
                self._health.beat = time.monotonic()
            await asyncio.sleep(BEAT)

    async def _reconcile_job(self, key: Key) -> float | None:
        if key == CANARY:
            self._health.beat = time.monotonic()
            return None
        assert self._jobs is not None, "the queue is made after it"
        return await self._jobs.reconcile(key)

    def _alive(self) -> str:
        """ "" or what is dead."""
        return (
            "" if self._hosting is None or self._hosting.healthy() else "the coordinators' loop does not turn"
        )

    def _observe(self) -> None:
        if self._jobs is not None:
            self._jobs.observe()
        if self._drills is not None:
            self._drills.observe()

    def _ready(self) -> str:
        return "" if self._watching.is_set() else "not watching yet"


def _heed(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def _collect_rarely() -> None:
    """Have cycles searched for rarely, and never in what is here by now: a search through all that is known of a
    thousand jobs would hold every loop up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def main() -> int:
    """The process."""
    logs.begin()
    env = read_environment()
    _collect_rarely()

    def make_hosting(changed: Callable[[str], None], elsewhere: Callable[[str], str]) -> Hosting:
        return Coordinators(
            zookeeper=env.zookeeper, host="0.0.0.0", port=env.port, changed=changed,  # the pod's
            store_of=partial(job_store, allowed=env.allowed), elsewhere=elsewhere, opens=False,
        )  # fmt: skip

    history = History()
    if env.page is not None:
        logs.listen(history)
    operator = Operator(env, LightkubeApi(KubeConfig.from_env()), make_hosting, history)
    asyncio.run(operator.run())
    return 0
