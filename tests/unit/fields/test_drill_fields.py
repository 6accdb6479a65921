"""Every field of a FlameStreamDrill and a FlameStreamSnapshot has an effect, or is refused: a row a field and
a value."""

import asyncio
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest

from flamestream.job.manifest_parts import Seconds
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.api.drill import DrillSpec, DrillStatus, Target
from flamestream_operator.api.snapshot import SnapshotSpec
from flamestream_operator.crd import definitions
from flamestream_operator.drills.plan import plan_of
from flamestream_operator.drills.strikes import Strikes
from flamestream_operator.jobs.reading_pods import asked_of_audit
from flamestream_operator.site import Allowed, Site
from support.fields import Row, leaves, uncovered
from support.operator.operator_world import KEY, World

LEAST: dict[str, Any] = {"job": "j", "fault": {"target": "worker"}}
AT = {"fault.targetSelector": {"app": "zk"}}
TARGETS = [each for each in get_args(Target) if each not in ("worker", "network")]
DRILL = [
    Row("job", "k", "struck"),
    *(
        Row("fault.target", target, "struck", along=AT if target in ("zookeeper", "store", "pod") else {})
        for target in TARGETS
    ),
    Row("fault.target", "network", "struck", along={"fault.action": "cut"}),
    Row("fault.target", "worker", "struck", before="daemon"),
    Row("fault.action", "pause", "struck"),
    Row("fault.action", "delete", "struck", given={"fault.target": "executor"}),
    Row("fault.action", "cut", "struck", given={"fault.target": "node"}),
    Row("fault.pauseFor", "3s", "struck", given={"fault.action": "pause"}),
    Row("fault.pauseFor", "3s", "struck", given={"fault.target": "network", "fault.action": "cut"}),
    Row("fault.pauseFor", "3s", "plan", given={"fault.target": "network", "fault.action": "cut"}),
    Row("fault.pauseFor", "3s", refused="pauseFor is of a pause or a cut"),
    Row("fault.targetSelector", {"app": "x"}, "struck", given={"fault.target": "pod", **AT}),
    Row(
        "fault.targetSelector",
        {"app": "x"},
        refused="targetSelector and targetNamespace are for zookeeper, store and pod",
    ),
    Row("fault.targetNamespace", "other", "struck", given={"fault.target": "pod", **AT}),
    Row("times", 3, "plan"),
    Row("after", "5s", "plan"),
    Row("seed", 7, "plan"),
    Row("timeout", "5s", "plan"),
    Row("audit", False, "plan"),
    Row("definitions", True, "audited"),
]
SNAPSHOT = [Row("job", "other", "taken"), Row("deletionPolicy", "Keep", "deleted")]


def spec_of(document: dict[str, Any]) -> DrillSpec:
    return msgspec.convert(document, DrillSpec, dec_hook=lambda _, value: Seconds.parse(value))


def plan(document: dict[str, Any]) -> Any:
    return plan_of(spec_of(document))


def pod(name: str, role: str, ip: str) -> dict[str, Any]:
    labels = {"flamestream.dev/role": role, "flamestream.dev/application": "a"}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels},
        "spec": {"nodeName": "node", "containers": [{"name": "executor", "image": "i"}]},
        "status": {"phase": "Running", "podIP": ip},
    }


def struck(document: dict[str, Any]) -> Any:
    """Every request that looking for victims and one strike make."""
    asked: list[Any] = []
    there = {
        made["metadata"]["name"]: made for made in (pod("driver", "driver", "1"), pod("exec", "worker", "2"))
    }
    there |= {name: pod(name, "other", "3") for name in ("operator", "selected")}

    def answer(what: str, value: Any) -> Any:
        async def call(*words: Any, **named: Any) -> Any:
            asked.append((what, words, named))
            return value(*words) if callable(value) else value

        return call

    def pods_of(key: tuple[str, str]) -> list[Any]:
        asked.append(("pods of", key))
        return [there["driver"], there["exec"]]

    api: Any = SimpleNamespace(
        get=answer("get", lambda kind, namespace, name: there.get(name)), list_all=answer("list", [there["selected"]]),
        execute=answer("execute", '{"pids": [7], "seen": "gone"}'), attach=answer("attach", None), delete=answer("delete", None),
    )  # fmt: skip
    tools: Any = SimpleNamespace(
        cluster=SimpleNamespace(pods_of=pods_of), check=lambda: None,
        hosting=SimpleNamespace(members=lambda job: [SimpleNamespace(ip="2", standby=False)]),
    )  # fmt: skip
    allowed = Allowed(drill_namespaces=("system", "other"))
    site = Site(coordinator="o:1", zookeeper=ZooKeeperAccess("z:1", "o:s"), image="i", allowed=allowed)

    async def play() -> None:
        spec = spec_of(document)
        strikes = Strikes(tools, api, ("system", "operator"), site)
        found = await strikes.targets("n", spec)
        victim, lives = sorted(found.victims.items())[0]
        await strikes.strike(
            "n", spec, DrillStatus(victim=victim, lives=list(lives), struck_at="2026-01-01T00:00:00Z")
        )

    asyncio.run(play())
    return asked


def lived(document: dict[str, Any], *, delete: bool) -> Any:
    """What a savepoint's object leads to, and what its deletion does to the copy."""
    world, removed = World(), []

    async def play() -> None:
        world.apply()
        await world.calm()
        hosting = world.operators[0].hosting
        before = hosting.delete_savepoint
        hosting.delete_savepoint = lambda *given: removed.append(1) or before(*given)  # type: ignore[method-assign,func-returns-value]
        world.snapshot("before", of=document["job"])
        world.kubernetes.merge(("FlameStreamSnapshot", KEY[0], "before"), {"spec": document})
        await world.calm(10)
        if delete:
            world.kubernetes.remove(("FlameStreamSnapshot", KEY[0], "before"))
            await world.calm(10)

    asyncio.run(play())
    left = {
        thing["metadata"]["name"]: thing.get("status") for thing in world.kubernetes.of("FlameStreamSnapshot")
    }
    return left, removed


VIEWS: dict[str, Any] = {
    "plan": plan,
    "struck": struck,
    "audited": lambda document: asked_of_audit({"spec": document}),
    "taken": lambda document: lived(document, delete=False),
    "deleted": lambda document: lived(document, delete=True),
}


def test_every_field_and_every_value_of_an_enumeration_has_a_row() -> None:
    assert uncovered(leaves(DrillSpec), DRILL) == []
    assert uncovered(leaves(SnapshotSpec), SNAPSHOT) == []


@pytest.mark.parametrize("row", [row for row in (*DRILL, *SNAPSHOT) if not row.refused], ids=str)
def test_a_change_of_a_field_is_seen(row: Row) -> None:
    before, after = row.documents({"job": KEY[1]} if row in SNAPSHOT else LEAST)
    view = VIEWS[row.sees]
    assert view(before) == view(before), "what is compared must not differ by itself"
    assert view(before) != view(after)


@pytest.mark.parametrize("row", [row for row in DRILL if row.refused], ids=str)
def test_what_would_have_no_effect_is_refused_at_kubectl_apply(row: Row) -> None:
    """By a rule of the definition, which the API server of tests/integration/operator carries out."""
    schema = definitions.drill()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]["fault"]
    (rule,) = (rule for rule in schema["x-kubernetes-validations"] if row.refused in rule["message"])
    assert row.path.rpartition(".")[2] in rule["rule"]
