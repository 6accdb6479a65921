"""An object that the schema would have refused (one that was exchanged or loosened lets it in) costs nobody
but itself anything."""

import asyncio
from typing import Any

import pytest

from flamestream_operator.kube.cache import Cluster, Key
from flamestream_operator.kube.namespaces import Namespaces
from flamestream_operator.kube.watches import Watches
from flamestream_operator.objects.meta import Object
from support.operator.operator_world import KEY, World

MALFORMED: dict[str, Any] = {
    "nothing": {},
    "no spec": {"spec": None},
    "a text": {"spec": "job"},
    "a list": {"spec": [1]},
    "a job that is an object": {"spec": {"job": {"a": 1}}},
    "a text to restore from": {
        "spec": {"job": KEY[1], "restoreFrom": "s", "deletionPolicy": 7, "checkpoint": "x"}
    },
    "another status": {"spec": {"job": KEY[1]}, "status": {"phase": 5, "conditions": {}}},
}


def named(kind: str, parts: Any) -> Object:
    return {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": kind,
        "metadata": {"namespace": KEY[0], "name": "odd", "uid": "u"},
        **parts,
    }


@pytest.mark.parametrize("parts", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_snapshot_is_met_in_the_look_of_every_job_and_holds_up_none(parts: Any) -> None:
    async def run() -> None:
        world = World()
        world.operators[0].cluster.snapshots.put(named("FlameStreamSnapshot", parts))
        world.apply()
        operator = world.operators[0]
        for _ in range(20):
            world.now += 1.0
            operator.follow(100)
            await operator.jobs.reconcile(KEY)
            world.fleet.step()
            operator.hosting.step()
        assert world.condition("Ready").status == "True"

    asyncio.run(run())


@pytest.mark.parametrize("parts", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("kind", ["FlameStreamSnapshot", "FlameStreamJob"])
def test_an_event_of_a_snapshot_reaches_the_jobs_whatever_stands_beside_it(kind: str, parts: Any) -> None:
    cluster, changed = Cluster(), list[tuple[str, Key]]()
    queues: Any = {
        name: lambda key, name=name: changed.append((name, key)) for name in ("jobs", "snapshots", "drills")
    }
    chosen: Any = None  # without a selector nobody is told
    watches = Watches(
        cluster, queues, lambda namespace, name: None, Namespaces(), chosen, nodes=False, drills=False
    )
    restored = {
        "metadata": {"namespace": KEY[0], "name": "waits", "uid": "w"},
        "spec": {"restoreFrom": {"snapshot": "odd"}},
    }
    cluster.jobs.put(restored)
    if kind == "FlameStreamJob":
        cluster.jobs.put(named(kind, parts))
        parts = {"spec": {"job": KEY[1]}}
    event: Any = {"type": "ADDED", "object": named("FlameStreamSnapshot", parts)}
    asyncio.run(watches._snapshot(event))
    assert ("jobs", (KEY[0], "waits")) in changed and ("snapshots", (KEY[0], "odd")) in changed
