"""Pods beside a job that read what it has read and written, for a moment: an audit's, and one that traces an item.

Keeps: such a pod has the job's image, volumes and keys as its last launch has them, no token, and a ConfigMap of its
own, which goes with it or with its owner. Does not: read what a pod has said.
"""

from collections.abc import Sequence
from typing import Final

from flamestream.job.object_names import copies_among
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.launching import files_of, launch_of
from flamestream_operator.jobs.reconciler import JobReconciler
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Key
from flamestream_operator.objects.meta import JOB, Object, owner
from flamestream_operator.objects.pods import Launch, build_reading_pod
from flamestream_operator.objects.small import build_config, build_zookeeper
from flamestream_operator.site import Site

TRACE_SECONDS: Final = 240
"""A pod that traces is ended then, whoever waits for it."""


def asked_of_audit(drill: Object) -> list[str]:
    """The words of a drill's audit beside the usual ones, for its pod's tool."""
    return ["--definitions"] if drill["spec"].get("definitions") else []


class ReadingPods:
    """The maker of such pods, in the operator that leads."""

    def __init__(self, jobs: JobReconciler, site: Site, tools: Tools) -> None:
        self._jobs, self._site, self._tools = jobs, site, tools

    async def audit(self, key: Key, drill: Object, name: str, *, tasks: int) -> None:
        """Create an audit's pod and ConfigMap, both the drill's. `tasks`: the job's workers. Nothing is created for a
        job that was not looked at yet: the drill asks again."""
        if (found := await self._launch(key, name, tasks)) is None:
            return
        launch, config = found
        config["metadata"]["ownerReferences"] = [owner(drill)]
        await self._create_unless_there(config)
        copies = copies_among(await self._tools.api.list_all("ConfigMap", key[0], {JOB: key[1]}))
        asked = asked_of_audit(drill)
        await self._tools.api.create(build_reading_pod(launch, drill, name, "audit", asked, copies=copies))

    async def trace(self, key: Key, name: str, arguments: Sequence[str]) -> bool:
        """Create a pod that traces an item, and its ConfigMap, which goes with the pod. False: the job was not looked
        at yet, or cannot be launched."""
        if (found := await self._launch(key, name, 1)) is None:
            return False
        launch, config = found
        pod = build_reading_pod(launch, launch.job, name, "trace", arguments, seconds=TRACE_SECONDS)
        # Its ConfigMap comes behind it, to be the pod's: a pod waits for it.
        config["metadata"]["ownerReferences"] = [owner(await self._tools.api.create(pod))]
        await self._create_unless_there(config)
        return True

    async def remove(self, namespace: str, name: str) -> None:
        """Remove a pod that traces."""
        await self._tools.api.delete("Pod", namespace, name, grace=0)

    async def _launch(self, key: Key, name: str, tasks: int) -> tuple[Launch, Object] | None:
        """The launch that a pod is made from, and its ConfigMap; the way to ZooKeeper stands then."""
        api = self._tools.api
        job = self._tools.cluster.jobs.get(key) or await api.get("FlameStreamJob", *key)
        if job is None or self._jobs.memory_of(key) is None:
            return None  # an operator that has just begun to lead looks at the job soon
        look, status, desired = self._jobs.planned(job)
        if desired.plan is None:
            return None
        launch = launch_of(
            look, status, desired, desired.plan, application="a", number=status.launches, tasks=tasks
        )
        self._tools.check()
        access = build_zookeeper(job, self._site.zookeeper)
        await self._create_unless_there(access)
        # As ZooKeeper is reached now: a job that has ended may have been launched when it was reached otherwise.
        await api.patch("Secret", key[0], access["metadata"]["name"], {"data": access["data"]})
        return launch, build_config(job, name, files_of(look, launch, desired))

    async def _create_unless_there(self, thing: Object) -> None:
        try:
            await self._tools.api.create(thing)
        except ApiProblem as problem:
            if not problem.exists:
                raise
