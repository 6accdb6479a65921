"""A node in this process: pods of an API server, real or in memory, become real processes on addresses of
their own (127.x.y.z).

A driver pod is not Spark: its executors are made as Spark makes them, from the template that the operator
wrote, and a worker's process that dies is started again in its pod. What a worker is told, reads and writes
is the product's own (support/operator/pod_main.py).

Keeps: what it started ends with `close`. Does not: schedule, pull images, or wait out a grace.
"""

import base64
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flamestream_operator.kube.api import Api, ApiProblem
from flamestream_operator.objects.meta import APPLICATION, JOB, ROLE, Object

MAIN = Path(__file__).with_name("pod_main.py")


@dataclass
class Pod:
    """One that runs here."""

    name: str
    uid: str
    role: str
    owner: str
    """Uid of the driver's pod, of a worker's."""
    folder: Path
    ip: str
    application: str
    environment: dict[str, str]
    index: int = 0
    lives: int = 0
    process: subprocess.Popen[bytes] | None = None
    done: bool = False
    """It has ended well, or it is over in the API."""
    executors: int = 0
    """Ever made."""
    tasks: dict[int, str] = field(default_factory=dict)
    """Of a driver: which executor has which task."""


class Kubelet:
    """`step` again and again."""

    def __init__(self, api: Api, namespace: str, folder: Path) -> None:
        self.api, self._namespace, self._folder = api, namespace, folder
        self.pods: dict[str, Pod] = {}
        """By uid."""
        self._addresses = int.from_bytes(os.urandom(2), "big") % 60_000
        """Of this test: another's process may still hold its own."""

    async def step(self) -> None:
        """What has changed since the last."""
        there = {
            pod["metadata"]["uid"]: pod
            for pod in await self.api.list_all("Pod", self._namespace)
            if JOB in _labels(pod)
        }
        for uid in [
            uid for uid in self.pods if uid not in there or there[uid]["metadata"].get("deletionTimestamp")
        ]:
            self._end(self.pods.pop(uid))
        for uid, thing in there.items():
            orphaned = (owner := _owner(thing)) is not None and owner not in there  # the garbage collector's
            if orphaned or thing["metadata"].get("deletionTimestamp"):
                await self.api.delete("Pod", self._namespace, thing["metadata"]["name"], grace=0)
            elif uid not in self.pods and (thing.get("status") or {}).get("phase", "Pending") == "Pending":
                await self._begin(thing)
        for pod in list(self.pods.values()):
            await self._look(pod)

    def close(self) -> None:
        """End everything."""
        for pod in self.pods.values():
            self._end(pod)
        self.pods.clear()

    def workers(self) -> list[Pod]:
        """Those that run, by name."""
        return sorted(
            (pod for pod in self.pods.values() if pod.role == "worker" and pod.process is not None),
            key=lambda pod: pod.name,
        )

    def said(self) -> str:
        """The newest words of everybody who was here, for a test that fails."""
        files = sorted(self._folder.glob("*/log"), key=lambda file: file.stat().st_mtime)
        return "\n".join(
            f"--- {file.parent.name}\n{file.read_text(errors='replace')[-1500:]}" for file in files[-6:]
        )

    # --- inside ---------------------------------------------------------------------------------------------

    async def _begin(self, thing: Object) -> None:
        meta, role = thing["metadata"], _labels(thing)[ROLE]
        owner = next((pod for pod in self.pods.values() if pod.uid == _owner(thing)), None)
        if role == "worker" and owner is None:
            return
        self._addresses += 1
        ip = (
            f"127.{10 + self._addresses // 65_000}.{self._addresses // 250 % 250}.{self._addresses % 250 + 1}"
        )
        folder = owner.folder if owner is not None else self._folder / meta["name"]
        pod = Pod(
            meta["name"], meta["uid"], role, _owner(thing) or "", folder, ip,
            _labels(thing).get(APPLICATION, ""), await self._environment(thing),
        )  # fmt: skip
        if owner is not None:
            pod.index = next(index for index, name in owner.tasks.items() if name == pod.name)
        else:
            await self._mount(thing, folder)
        self.pods[pod.uid] = pod
        await self._patch(pod, {"phase": "Running", "podIP": ip})

    async def _environment(self, thing: Object) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in thing["spec"]["containers"][0].get("envFrom") or ():
            secret = await self.api.get("Secret", self._namespace, source["secretRef"]["name"])
            found |= {
                name: base64.b64decode(value).decode()
                for name, value in ((secret or {}).get("data") or {}).items()
            }
        return found

    async def _mount(self, thing: Object, folder: Path) -> None:
        for volume in thing["spec"].get("volumes") or ():
            kind, key = ("ConfigMap", "name") if "configMap" in volume else ("Secret", "secretName")
            if not {"configMap", "secret"} & set(volume):
                continue
            found = await self.api.get(
                kind, self._namespace, volume["configMap" if kind == "ConfigMap" else "secret"][key]
            )
            assert found is not None, (
                f"{thing['metadata']['name']} waits for {kind} of volume {volume['name']}"
            )
            place = folder / volume["name"]
            place.mkdir(parents=True, exist_ok=True)
            for name, value in (found.get("data") or {}).items():
                (place / name).write_bytes(base64.b64decode(value) if kind == "Secret" else value.encode())

    async def _look(self, pod: Pod) -> None:
        if pod.done:
            return
        if pod.role == "driver":
            await self._drive(pod)
            return
        code = pod.process.poll() if pod.process is not None else None
        if pod.process is None or (code and pod.role == "worker"):  # Spark starts a task that failed again
            pod.process = self._process(pod)
            pod.lives += 1
        elif code is not None:
            pod.done = True
            message = (pod.folder / "out").read_text() if pod.role != "worker" else ""
            await self._over(pod, code, message)

    def _process(self, pod: Pod) -> subprocess.Popen[bytes]:
        arguments = [pod.application, str(pod.index), str(pod.lives)] if pod.role == "worker" else []
        environment = (
            os.environ
            | pod.environment
            | {"PYTHONPATH": os.pathsep.join(sys.path), "SPARK_EXECUTOR_POD_IP": pod.ip}
        )
        (self._folder / pod.name).mkdir(parents=True, exist_ok=True)
        with (
            open(self._folder / pod.name / "log", "ab") as log,
            open(self._folder / pod.name / "out", "ab") as out,
        ):
            command = [
                sys.executable,
                str(MAIN),
                "worker" if pod.role == "worker" else "preflight",
                str(pod.folder),
                *arguments,
            ]
            return subprocess.Popen(command, stdout=out, stderr=log, env=environment, start_new_session=True)

    async def _drive(self, driver: Pod) -> None:
        """As many executors as the launch has tasks; and the end, when every worker was told to stop."""
        told = json.loads((driver.folder / "config" / f"driver-{driver.application}.json").read_text())
        mine = {pod.name: pod for pod in self.pods.values() if pod.owner == driver.uid}
        if len(mine) == told["tasks"] and all(pod.done for pod in mine.values()):
            driver.done = True
            await self._over(driver, 0, "")
            return
        template = json.loads((driver.folder / "config" / "executor.json").read_text())
        for index in range(told["tasks"]):
            name = driver.tasks.get(index)
            if name is None or name not in mine:
                driver.executors += 1
                driver.tasks[index] = f"{told['podNamePrefix']}-exec-{driver.executors}"
                await self.api.create(_executor(template, driver, driver.tasks[index], told, self._namespace))

    async def _over(self, pod: Pod, code: int, message: str) -> None:
        ended = {"exitCode": code, "message": message, "reason": "Error" if code else "Completed"}
        statuses = [
            {
                "name": "it",
                "image": "",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": ended},
            }
        ]
        await self._patch(pod, {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses})

    async def _patch(self, pod: Pod, status: dict[str, Any]) -> None:
        try:
            await self.api.patch("Pod", self._namespace, pod.name, {"status": status}, status=True)
        except ApiProblem as problem:
            if not problem.absent:  # deleted since it was listed
                raise

    def _end(self, pod: Pod) -> None:
        if pod.process is not None and pod.process.poll() is None:
            pod.process.kill()
            pod.process.wait()


def _labels(pod: Object) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}


def _owner(pod: Object) -> str | None:
    """Uid of the pod that it belongs to."""
    return next(
        (each["uid"] for each in pod["metadata"].get("ownerReferences") or () if each["kind"] == "Pod"), None
    )


def _executor(template: Object, driver: Pod, name: str, told: Object, namespace: str) -> Object:
    """As Spark makes it."""
    container = {**template["spec"]["containers"][0], "image": told["image"], "args": ["executor"]}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": driver.name, "uid": driver.uid, "controller": True}
    meta = {**template["metadata"], "name": name, "namespace": namespace, "ownerReferences": [owner]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**template["spec"], "containers": [container]},
    }
