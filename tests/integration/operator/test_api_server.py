"""The operator's adapter, builders and CRDs against a real API server: what the fake one is held to."""

import asyncio
import copy
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from lightkube import AsyncClient
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.jobs.decide import status_of
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.reconciler import JobReconciler
from flamestream_operator.kube.api import Api, ApiProblem, LightkubeApi
from flamestream_operator.kube.api import _kinds as kinds
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.kube.lease import Leadership
from flamestream_operator.objects.meta import JOB, Object
from flamestream_operator.site import Site
from support.operator.fake_fleet import FakeHosting, Fleet
from support.operator.fake_kubernetes import FakeKubernetes
from support.operator.gitops import kstatus
from support.operator.operator_world import keys
from support.operator.real_cluster import VARIABLE, config, namespace, the_api

pytestmark = pytest.mark.usefixtures("api_server")

JOB_SPEC = {
    "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
    "sources": {"numbers": {"generator": {"count": 10}}},
    "sinks": {"out": {"files": {"path": "/out"}}},
    "workers": {"replicas": 2},
    "checkpoint": {"interval": "1s", "store": "s3://bucket/j", "secret": "store"},
}
ZOOKEEPER = ZooKeeperAccess("zk:2181", "o:s")
SITE = Site(
    coordinator="operator:7700", zookeeper=ZOOKEEPER, image="flamestream.invalid/none:1", pull_policy="Never"
)


@pytest.fixture(scope="module")
def place(api_server: None) -> Iterator[str]:
    """A namespace that admits restricted pods only."""
    with namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        yield name


def a_job(place: str, name: str, **spec: Any) -> Object:
    merged = {**copy.deepcopy(JOB_SPEC), **spec}
    return {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": {"name": name, "namespace": place},
        "spec": merged,
    }


async def _contract(api: Api, place: str) -> list[str]:
    """What both servers say, in order."""
    said = []

    async def ask(what: Awaitable[Any]) -> Any:
        try:
            answer = await what
        except ApiProblem as problem:
            said.append(f"{problem.status} {problem.reason}")
            return None
        said.append("ok")
        return answer

    made = await ask(api.create(a_job(place, "contract")))
    await ask(api.create(a_job(place, "contract")))
    await ask(api.create(a_job(place, "other"), dry_run=True))
    said.append(str(await api.get("FlameStreamJob", place, "other")))
    fresh = await ask(api.replace_status({**made, "status": {"phase": "Starting"}}))
    said.append(f"{fresh['status']['phase']} generation {fresh['metadata']['generation']}")
    await ask(api.replace_status({**made, "status": {"phase": "Running"}}))  # an old version
    finalized = await ask(
        api.patch(
            "FlameStreamJob", place, "contract", {"metadata": {"finalizers": ["flamestream.dev/cleanup"]}}
        )
    )
    said.append(str(finalized["metadata"]["finalizers"]))
    stale = {"metadata": {"finalizers": [], "resourceVersion": made["metadata"]["resourceVersion"]}}
    await ask(api.patch("FlameStreamJob", place, "contract", stale))
    await ask(api.delete("FlameStreamJob", place, "contract"))
    going = await api.get("FlameStreamJob", place, "contract")
    said.append(f"going {bool(going and going['metadata'].get('deletionTimestamp'))}")
    await ask(api.patch("FlameStreamJob", place, "contract", {"metadata": {"finalizers": []}}))
    said.append(str(await api.get("FlameStreamJob", place, "contract")))
    await ask(api.delete("FlameStreamJob", place, "contract"))  # absent is fine
    found = await api.list_all("FlameStreamJob", place)
    said.append(str([thing["metadata"]["name"] for thing in found]))
    return said


def test_the_fake_server_answers_as_the_real_one(place: str) -> None:
    fake = asyncio.run(_contract(FakeKubernetes(), place))

    async def play() -> list[str]:
        async with the_api() as api:
            return await _contract(api, place)

    real = asyncio.run(play())
    assert fake == real


REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"checkpoint": {"interval": "1s", "store": "/folder"}}, "spec.checkpoint.store", "s3://bucket/prefix"),
    ({"checkpoint": {"interval": "soon", "store": "s3://b/p"}}, "spec.checkpoint.interval", "should match"),
    ({"sinks": {"out": {"discard": {}}}}, "spec.sinks", "can fence"),
    ({"sinks": {"out": {}}}, "spec.sinks[out]", "exactly one kind"),
    (
        {"sources": {"a": {"files": {"path": "x"}, "socket": {"address": "h:1"}}}},
        "spec.sources[a]",
        "exactly one kind",
    ),
    ({"workers": {"replicas": 0}}, "spec.workers.replicas", "greater than or equal to 1"),
    ({"workers": {"replicas": 9, "slots": 8}}, "spec.workers", "at most as many replicas as slots"),
    ({"highAvailability": True, "workers": {"replicas": 1}}, "spec.highAvailability", "at least two workers"),
    ({"guarantee": "twice"}, "spec.guarantee", "Unsupported value"),
    ({"application": {"file": "j.txt", "graph": "g"}}, "spec.application.file", "Python file"),
    (
        {"application": {"file": "j.py", "graph": "g", "pyFiles": ["s3://b/a.zip"]}},
        "spec.application.pyFiles",
        "#sha256=HEX",
    ),
    (
        {"journal": {"folder": "zookeeper://", "fsync": False}},
        "spec.journal",
        "fsync and shared are of a folder",
    ),
    (
        {
            "workers": {
                "replicas": 1,
                "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            }
        },
        "requests",
        "one amount of",
    ),
    ({"sources": {"a": {"files": {"path": 5}}}}, "spec.sources.a.files.path", "must be of type string"),
    ({"sources": {"a": {"socket": {}}}}, "spec.sources.a.socket.address", "Required value"),
    ({"restartPolicy": "Sometimes"}, "spec.restartPolicy", "Unsupported value"),
]


@pytest.mark.parametrize(
    ("spec", "field", "words"), REFUSALS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_bad_manifest_is_refused_with_field_and_reason(
    place: str, spec: dict[str, Any], field: str, words: str
) -> None:
    async def play() -> ApiProblem:
        async with the_api() as api:
            with pytest.raises(ApiProblem) as caught:
                await api.create(a_job(place, "refused", **spec))
            return caught.value

    problem = asyncio.run(play())
    assert problem.status == 422
    assert field in problem.message
    assert words in problem.message


EDITS: list[tuple[dict[str, Any], str]] = [
    ({"application": {"graph": "another"}}, "upgrade.strategy"),
    ({"workers": {"slots": 8}}, "fixed for the life"),
    ({"checkpoint": {"store": "s3://elsewhere/x"}}, "FlameStreamSnapshot"),
    ({"guarantee": "at-least-once"}, "upgrade.strategy"),
]


DRILLS: list[tuple[dict[str, Any], str]] = [
    ({"target": "worker", "pauseFor": "3s"}, "pauseFor is of a pause or a cut"),
    (
        {"target": "worker", "targetSelector": {"app": "x"}},
        "targetSelector and targetNamespace are for zookeeper, store and pod",
    ),
    ({"target": "pod"}, "say which pods"),
]


@pytest.mark.parametrize(
    ("fault", "words"), DRILLS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_drill_with_a_field_that_would_do_nothing_is_refused(
    place: str, fault: dict[str, Any], words: str
) -> None:
    async def play() -> ApiProblem:
        meta = {"name": "refused", "namespace": place}
        drill = {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamDrill",
            "metadata": meta,
            "spec": {"job": "j", "fault": fault},
        }
        async with the_api() as api:
            with pytest.raises(ApiProblem) as caught:
                await api.create(drill)
            return caught.value

    problem = asyncio.run(play())
    assert problem.status == 422
    assert words in problem.message


@pytest.mark.parametrize(("edit", "words"), EDITS, ids=lambda value: value if isinstance(value, str) else "")
def test_an_edit_that_would_break_a_promise_is_refused(place: str, edit: dict[str, Any], words: str) -> None:
    async def play() -> ApiProblem:
        async with the_api() as api:
            await api.create(a_job(place, "edited"))
            try:
                with pytest.raises(ApiProblem) as caught:
                    await api.patch("FlameStreamJob", place, "edited", {"spec": edit})
                await api.patch(
                    "FlameStreamJob",
                    place,
                    "edited",
                    {"spec": {"suspend": True, "checkpoint": {"interval": "2s"}}},
                )
                return caught.value
            finally:
                await api.delete("FlameStreamJob", place, "edited")

    assert words in asyncio.run(play()).message


class Local:
    """A reconciler on the real API server, with coordinators that know of no worker."""

    def __init__(self, api: LightkubeApi, place: str) -> None:
        self.api, self.cluster, self.place = api, Cluster(), place
        hosting = FakeHosting(Fleet(FakeKubernetes()))
        tools = Tools(
            api=self.api,
            cluster=self.cluster,
            hosting=hosting,
            check=lambda: None,
            again=lambda _: None,
            clock=time.time,
        )
        self.jobs = JobReconciler(SITE, tools)

    async def until(self, name: str, good: Callable[[Object], bool]) -> Object:
        """Reconcile until the job is as wanted."""
        for _ in range(300):
            self.cluster.jobs.replace_all(await self.api.list_all("FlameStreamJob", self.place), self.place)
            self.cluster.replace_pods(await self.api.list_all("Pod", self.place, {JOB: name}), self.place)
            job = self.cluster.jobs.get((self.place, name))
            if job is None or good(job):
                return job or {}
            await self.jobs.reconcile((self.place, name))
            await asyncio.sleep(0.1)
        raise AssertionError(f"never as wanted: {self.cluster.jobs.get((self.place, name))}")


def test_a_job_that_nobody_has_looked_at_is_in_progress_to_who_waits(place: str) -> None:
    async def play() -> None:
        async with the_api() as api:
            made = await api.create(a_job(place, "unseen"))
            assert (made["status"], kstatus(made)) == ({"observedGeneration": -1}, "InProgress")
            assert status_of(made).phase == "Pending"
            await api.delete("FlameStreamJob", place, "unseen")

    asyncio.run(play())


def test_who_applies_a_job_again_and_again_and_the_operator_never_fight_over_a_field(place: str) -> None:
    """Server-side apply without force, as Flux and Argo CD do it: a field of somebody else's would be a conflict."""

    async def play(local: Local) -> None:
        kind = kinds()["FlameStreamJob"]
        client = AsyncClient(config=config(), field_manager="flux", trust_env=False)
        wanted = a_job(place, "applied")
        try:
            await client.apply(kind(wanted))
            await local.until("applied", lambda job: bool(status_of(job).conditions))
            if shutil.which("kubectl"):
                await asyncio.to_thread(waited_for, "Reconciling", "applied", place)
            before = await local.api.get("FlameStreamJob", place, "applied")
            assert before is not None and before["metadata"]["finalizers"] and before["status"]["phase"]
            await client.apply(kind(wanted))
            same = await local.api.get("FlameStreamJob", place, "applied")
            assert (
                same is not None
                and same["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
            )
            store = {"interval": "2s", "store": "s3://bucket/j", "secret": "store"}
            changed = dict(await client.apply(kind(a_job(place, "applied", checkpoint=store))))
            assert changed["metadata"]["generation"] == 2 and changed["metadata"]["finalizers"]
            owned = {
                each["manager"]: set(each["fieldsV1"])
                for each in changed["metadata"]["managedFields"]
                if each["manager"] != "flux"
            }
            assert set().union(*owned.values()) <= {"f:metadata", "f:status"}, "the operator writes no spec"
        finally:
            await client.close()
            await local.api.delete("FlameStreamJob", place, "applied")
            await local.until("applied", lambda _: False)

    locally(place, play)


def waited_for(condition: str, job: str, place: str) -> None:
    """kubectl's own wait."""
    waits = [
        "kubectl",
        "--kubeconfig",
        os.environ[VARIABLE],
        "-n",
        place,
        "wait",
        f"fsj/{job}",
        "--timeout=20s",
    ]
    done = subprocess.run(
        [*waits, f"--for=condition={condition}"], capture_output=True, text=True, check=False
    )
    assert "condition met" in done.stdout, done.stderr


def test_an_applied_job_has_its_driver_pod_admitted_as_restricted_and_leaves_nothing(place: str) -> None:
    async def play(local: Local) -> None:
        await local.api.create(application(place))
        await local.api.create(keys(place))
        await local.api.create(a_job(place, "numbers"))
        job = await local.until(
            "numbers",
            lambda job: bool(status_of(job).drivers) and bool(local.cluster.pods_of((place, "numbers"))),
        )
        driver = status_of(job).drivers[0].name
        pod = await local.api.get("Pod", place, driver)
        assert pod is not None
        assert pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        assert status_of(job).phase == "Starting"
        for kind, name in (
            ("Service", "numbers-pods"),
            ("Role", "flamestream-numbers-driver"),
            ("PodDisruptionBudget", "numbers-workers"),
        ):
            assert await local.api.get(kind, place, name) is not None, f"{kind} {name}"
        await local.api.delete("FlameStreamJob", place, "numbers")
        await local.until("numbers", lambda _: False)
        assert await local.api.get("FlameStreamJob", place, "numbers") is None

    locally(place, play)


def test_a_quota_that_is_too_small_is_said_before_a_driver_starts() -> None:
    async def play(local: Local) -> None:
        await _small_quota(local.place)
        await local.api.create(application(local.place))
        await local.api.create(keys(local.place))
        await local.api.create(a_job(local.place, "big"))
        job = await local.until("big", lambda job: status_of(job).failures.count > 0)
        assert status_of(job).failures.reason == "QuotaExceeded"
        assert "limits.memory" in status_of(job).failures.last
        assert local.cluster.pods_of((local.place, "big")) == []
        await local.api.delete("FlameStreamJob", local.place, "big")
        await local.until("big", lambda _: False)

    with namespace() as small:
        locally(small, play)


def application(place: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "app", "namespace": place},
        "data": {"j.py": "graph = 1"},
    }


def locally(place: str, play: Callable[[Local], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with the_api() as api:
            await play(Local(api, place))

    asyncio.run(whole())


async def _small_quota(place: str) -> None:
    kind = create_namespaced_resource("", "v1", "ResourceQuota", "resourcequotas")
    client = AsyncClient(config=config(), trust_env=False)
    try:
        hard = {"limits.memory": "1Gi"}
        quota: Any = {"metadata": {"name": "small"}, "spec": {"hard": hard}}
        made = kind(quota)
        # its class is made above, so no overload knows it
        await client.create(made, namespace=place)  # type: ignore[call-overload]
        # what a controller finds out, where there is one
        status = {"status": {"hard": hard, "used": {"limits.memory": "0"}}}
        await client.patch(kind.Status, "small", status, namespace=place, patch_type=PatchType.MERGE)
    finally:
        await client.close()


def test_one_of_two_contenders_leads_and_the_other_follows_when_it_stops(place: str) -> None:
    async def play(local: Local) -> None:
        lost: list[str] = []
        one, two = (Leadership(local.api, place, "lease", name, 4.0, lost.append) for name in ("one", "two"))
        await one.acquire()
        assert one.valid
        waiting, holding = asyncio.create_task(two.acquire()), asyncio.create_task(one.hold())
        first = await local.api.get("Lease", place, "lease")
        while (await local.api.get("Lease", place, "lease")) == first:  # until it was renewed
            await asyncio.sleep(0.05)
        assert not waiting.done()
        holding.cancel()
        await waiting
        assert two.valid
        assert not one.valid
        one.check()
        assert set(lost) == {"the Lease ran out"}

    locally(place, play)
