"""Kubelets of a whole cluster, simulated: pods run as soon as they are there, and their workers dial.

A driver's pod makes its executors from the template that the operator wrote for it, as Spark does. A pod with a
readiness gate is ready once the operator has said that its worker is connected. The workers are those of workers.py.

Keeps: what is read and written of a pod is what a kubelet reads and writes (its ConfigMap, its Secret, its status).
Does not: schedule, or end a pod by itself.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from lightkube import AsyncClient
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import ConfigMap, Pod, Secret
from lightkube.types import PatchType, on_error_retry

from flamestream_operator.objects.meta import CONNECTED, JOB, ROLE

AT_ONCE: Final = 16
"""Pods that are started at the same time."""
Begun = Callable[[str, str, str, str], None]


class Kubelets:
    """`run` for ever."""

    def __init__(self, client: AsyncClient, namespace: str, begun: Begun) -> None:
        """`begun` is told of each worker that runs: its job, its name, its address, and its run's token."""
        self._client, self._namespace, self._begun = client, namespace, begun
        self._seen: set[str] = set()
        self._ready: set[str] = set()
        self._tokens: dict[str, str] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Watch the pods of all jobs."""
        pods: Any = self._client.watch(
            Pod, namespace=self._namespace, labels={JOB: None}, on_error=on_error_retry
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            async for event, pod in pods:
                if event != "DELETED" and (work := self._work(pod)) is not None:
                    tasks.create_task(self._bounded(work))

    def _work(self, pod: Any) -> Coroutine[Any, Any, None] | None:
        """What there is to do about a pod that is new, or has changed; None: nothing."""
        uid = pod.metadata.uid
        if uid not in self._seen:
            self._seen.add(uid)
            return self._begin(pod, len(self._seen))
        if uid not in self._ready and _is_connected(pod):
            self._ready.add(uid)
            return self._say(pod, _conditions(pod))
        return None

    async def _bounded(self, work: Coroutine[Any, Any, None]) -> None:
        async with self._gate:
            await work

    async def _begin(self, pod: Any, number: int) -> None:
        address = f"127.{1 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"
        await self._say(pod, {"phase": "Running", "podIP": address})
        labels = pod.metadata.labels
        if labels[ROLE] == "driver":
            await self._drive(pod)
        elif labels[ROLE] == "worker":
            token = self._tokens[pod.metadata.ownerReferences[0].uid]
            self._begun(f"{self._namespace}.{labels[JOB]}", pod.metadata.name, address, token)

    async def _drive(self, driver: Any) -> None:
        meta = driver.metadata
        volumes = {volume.name: volume for volume in driver.spec.volumes}
        secret: Any = await self._client.get(Secret, volumes["secret"].secret.secretName)
        self._tokens[meta.uid] = base64.b64decode(secret.data["token"]).decode()
        config: Any = await self._client.get(ConfigMap, volumes["config"].configMap.name)
        files = config.data
        told = json.loads(next(text for name, text in files.items() if name.startswith("driver-")))
        template = json.loads(files["executor.json"])
        for number in range(told["tasks"]):
            executor: Any = _executor(template, meta, f"{told['podNamePrefix']}-exec-{number + 1}", told)
            await self._client.create(executor)

    async def _say(self, pod: Any, status: dict[str, Any]) -> None:
        try:
            await self._client.patch(
                Pod.Status, pod.metadata.name, {"status": status}, patch_type=PatchType.MERGE
            )
        except ApiError as error:
            if error.status.code != 404:
                raise


def _is_connected(pod: Any) -> bool:
    return any(each.type == CONNECTED and each.status == "True" for each in pod.status.conditions or ())


def _conditions(pod: Any) -> dict[str, Any]:
    """Ready, beside what is there."""
    known = [each.to_dict() for each in pod.status.conditions or () if each.type != "Ready"]
    return {"conditions": [*known, {"type": "Ready", "status": "True"}]}


def _executor(template: dict[str, Any], driver: Any, name: str, told: dict[str, Any]) -> Pod:
    """As Spark makes it."""
    container = {**template["spec"]["containers"][0], "image": told["image"], "args": ["executor"]}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": driver.name, "uid": driver.uid, "controller": True}
    meta = {
        **template["metadata"],
        "name": name,
        "namespace": driver.namespace,
        "ownerReferences": [owner],
    }
    spec = {**template["spec"], "containers": [container]}
    return Pod.from_dict({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})  # type: ignore[return-value]
