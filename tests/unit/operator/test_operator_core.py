"""Each promise of the operator's core, on a fake cluster whose time is ours."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from flamestream.job.located import Document
from flamestream.job.manifest import job_of
from flamestream.model.event_time import END_OF_TIME
from flamestream.model.ids import SourceName
from flamestream_operator.jobs import spec as specs
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.lease import Leadership
from flamestream_operator.objects.meta import CONNECTED
from support.operator.operator_world import Crash, OneOperator, World

HOUR = 3600.0


def played(play: Callable[[World], Awaitable[None]]) -> World:
    world = World()
    asyncio.run(play(world))  # type: ignore[arg-type]  # a coroutine
    return world


async def started(world: World, **spec: object) -> None:
    world.apply(**spec)
    await world.calm()
    assert world.status.phase == "Running", world.status


def test_an_applied_job_runs() -> None:
    async def play(world: World) -> None:
        await started(world)
        assert world.pods("driver") == ["job-driver-a-1"]
        assert len(world.pods("worker")) == 2
        assert world.condition("Ready").status == "True"
        assert world.status.workers.summary == "2/2"

    played(play)


def test_a_quiet_job_asks_nothing_of_the_api_server() -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)  # past the moment at which the stable spec is written
        before = world.kubernetes.requests
        await world.calm(600)
        assert world.kubernetes.requests - before <= 600 / 120 + 1

    played(play)


def test_event_time_that_goes_on_is_written_when_the_other_figures_are() -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)  # past the moment at which the stable spec is written
        hosted, before = world.operators[0].hosting.jobs["default.job"], world.kubernetes.requests
        for second in range(600):
            hosted.event_times = {SourceName("clicks"): second * 1_000_000}
            hosted.late = {SourceName("clicks"): second}
            await world.calm(1)
        assert world.kubernetes.requests - before <= 600 / 120 + 1
        assert world.status.late["clicks"] > 600 - 2 * 120

    played(play)


def test_event_time_is_in_the_status_and_stays_there_while_nobody_runs() -> None:
    async def play(world: World) -> None:
        await started(world)
        times = {
            SourceName("clicks"): 1_700_000_000_000_000,
            SourceName("views"): None,
            SourceName("orders"): END_OF_TIME,
        }
        world.operators[0].hosting.jobs["default.job"].event_times = times
        world.operators[0].hosting.jobs["default.job"].late = {SourceName("clicks"): 7}
        world.apply(suspend=True)
        await world.calm()
        assert world.status.event_times == {
            "clicks": "2023-11-14T22:13:20.000Z",
            "views": "unknown",
            "orders": "ended",
        }
        assert world.status.late == {"clicks": 7}

    played(play)


def test_a_status_has_room_for_the_event_times_of_sixteen_sources() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.operators[0].hosting.jobs["default.job"].event_times = {
            SourceName(f"s{number:02}"): 0 for number in range(20)
        }
        world.apply(suspend=True)
        await world.calm()
        assert list(world.status.event_times) == [f"s{number:02}" for number in range(16)]

    played(play)


def test_suspend_stops_at_an_epoch_and_says_which_and_resume_goes_on() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.apply(suspend=True)
        await world.calm()
        assert (world.status.phase, world.pods("driver"), world.pods("worker")) == ("Suspended", [], [])
        assert world.condition("Suspended").status == "True"
        epoch = world.status.suspension.epoch
        assert epoch == world.fleet.records["default.job"].epoch
        world.apply(suspend=False)
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Running", ["job-driver-a-2"])
        assert world.status.epoch.number >= epoch

    played(play)


def test_a_killed_driver_is_replaced_under_a_new_name() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.kill("driver")
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Running", ["job-driver-a-2"])

    played(play)


@pytest.mark.parametrize(
    "edit",
    [{"checkpoint": {"interval": "5s"}}, {"ttlAfterFinished": "1h"}, {"backoff": {"initial": "2s"}}],
    ids=str,
)
def test_what_needs_no_restart_restarts_nothing(edit: dict[str, object]) -> None:
    async def play(world: World) -> None:
        await started(world)
        pods = {*world.pods("driver"), *world.pods("worker")}
        world.apply(**edit)
        await world.calm()
        assert {*world.pods("driver"), *world.pods("worker")} == pods
        assert world.status.observed_generation == 2

    played(play)


@pytest.mark.parametrize(
    "edit",
    [{"workers": {"replicas": 3}}, {"pods": {"labels": {"team": "x"}}}, {"workers": {"replicas": 1}}],
    ids=str,
)
def test_a_change_of_pods_replaces_them_while_the_stream_goes_on(edit: dict[str, object]) -> None:
    async def play(world: World) -> None:
        await started(world)
        run = world.status.run.number
        world.apply(**edit)
        await world.calm(80)
        assert world.pods("driver") == ["job-driver-a-2"]
        assert (world.status.run.number, world.status.phase) == (run, "Running")
        assert world.condition("Ready").status == "True"

    played(play)


def test_nobody_hands_over_to_workers_that_would_have_to_read_the_state_first() -> None:
    async def play(world: World) -> None:
        await started(world)
        old = set(world.pods("worker"))
        world.fleet.cold = True
        world.apply(pods={"annotations": {"changed": "1"}})
        await world.calm(10)
        assert len(world.pods("worker")) == 4, "the new ones are connected"
        ips = {world.kubernetes.things["Pod", "default", name]["status"]["podIP"] for name in old}
        assert set(world.operators[0].hosting.jobs["default.job"].layout) == ips
        world.fleet.cold = False
        await world.calm(10)
        assert not old & set(world.pods("worker"))

    played(play)


def test_a_new_leader_keeps_a_driver_that_retires_until_it_has_heard_of_its_workers() -> None:
    async def play(world: World) -> None:
        def crash(verb: str, kind: str) -> None:
            world._wrote(verb, kind)
            if any(driver.state == "Retiring" for driver in world.status.drivers):
                raise Crash

        await started(world)
        world.apply(pods={"annotations": {"changed": "1"}})
        world.kubernetes.after = crash
        with pytest.raises(Crash):
            await world.calm()
        world.kubernetes.after = world._wrote
        world.operators = [OneOperator(world, "two", len(world.kubernetes.log))]
        await world.operators[0].reconcile()
        assert "job-driver-a-1" in world.pods("driver"), "its workers have all slots"
        await world.calm()
        assert world.pods("driver") == ["job-driver-a-2"]

    played(play)


@pytest.mark.parametrize(("elsewhere", "retired"), [(2, 2), (1, 1)], ids=["enough others", "too few others"])
def test_workers_of_a_node_that_is_drained_hand_over_together_if_there_are_enough_others(
    elsewhere: int, retired: int
) -> None:
    async def play(world: World) -> None:
        await started(world, workers={"replicas": 2, "standby": elsewhere})
        pods = [("Pod", "default", name) for name in sorted(world.pods("worker"))]
        for pod in pods[:2]:
            world.kubernetes.merge(pod, {"spec": {"nodeName": "closed"}})
        world.operators[0].cluster.nodes.put(
            {"metadata": {"name": "closed", "uid": "n"}, "spec": {"unschedulable": True}}
        )
        world.kubernetes.merge(
            pods[0], {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubelet"]}}
        )
        operator = world.operators[0]
        operator.relist()
        await operator.reconcile()
        ips = [world.kubernetes.things[pod]["status"]["podIP"] for pod in pods[:2]]
        assert operator.hosting.jobs["default.job"].shunned == set(ips[:retired])

    played(play)


def test_new_code_drains_to_an_epoch_first() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.edit_code("print(2)")
        await world.calm(80)
        assert (world.status.run.number, world.status.phase, world.pods("driver")) == (
            2,
            "Running",
            ["job-driver-a-2"],
        )

    played(play)


def test_code_that_fails_its_trial_never_stops_the_stream() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.fleet.broken_digest = world.edit_code("import nothing")
        await world.calm(60)
        assert (world.status.phase, world.status.run.number, world.pods("driver")) == (
            "Running",
            1,
            ["job-driver-a-1"],
        )
        assert world.condition("Ready").status == "True"
        assert world.condition("Degraded").reason == "RolledBack"
        assert "no such module" in world.condition("Degraded").message
        assert world.pods("preflight") == []
        world.edit_code("print('mended')")
        await world.calm(60)
        assert (world.status.phase, world.status.run.number) == ("Running", 2)
        assert world.condition("Degraded").status == "False"

    played(play)


def test_code_that_does_not_start_after_its_trial_rolls_back_to_the_last_stable() -> None:
    async def play(world: World) -> None:
        await started(world)
        epoch = world.status.epoch.number
        world.fleet.breaks_late = True
        world.fleet.broken_digest = world.edit_code("import nothing")
        await world.calm(120)
        assert (world.status.phase, world.status.rolled_back) == ("Running", 1)
        assert world.condition("Degraded").reason == "RolledBack"
        assert "no such module" in world.condition("Degraded").message
        assert world.fleet.records["default.job"].epoch > epoch

    played(play)


def test_a_job_that_never_loads_fails_and_says_why() -> None:
    async def play(world: World) -> None:
        world.fleet.broken_digest = world.edit_code("import nothing")
        world.apply()
        await world.calm()
        assert world.status.phase == "Failed"
        assert (world.condition("Failed").reason, world.status.message) == ("ImportError", "no such module")
        assert world.pods("driver") == []

    played(play)


def test_a_refused_pod_is_a_reason_and_is_tried_again() -> None:
    async def play(world: World) -> None:
        world.kubernetes.refuse = lambda thing: (
            ApiProblem(403, "Forbidden", "exceeded quota: small")
            if thing["kind"] == "Pod" and "trial" in thing["metadata"]["name"]
            else None
        )
        world.apply()
        await world.calm()
        assert world.status.failures.reason == "QuotaExceeded"
        assert world.status.failures.count > 1
        assert world.pods("driver") == []
        world.kubernetes.refuse = lambda thing: None
        await world.calm(400)
        assert world.status.phase == "Running"

    played(play)


def test_a_missing_application_is_waited_for() -> None:
    async def play(world: World) -> None:
        world.edit_code("print(1)")
        world.kubernetes.remove(("ConfigMap", "default", "app"))
        world.kubernetes.make(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "default", "name": "app"},
                "data": {},
            }
        )
        world.apply(application={"file": "j.py", "graph": "graph", "configMap": "other"})
        await world.calm()
        assert "there is no ConfigMap 'other'" in world.status.message

    played(play)


def test_a_deleted_job_leaves_nothing_and_keeps_its_state() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.delete()
        await world.calm()
        left = [
            key
            for key in world.kubernetes.things
            if key[0] not in ("Event", "ConfigMap") or "app" not in key[2]
        ]
        assert [key for key in left if key[0] != "Event"] == [("Secret", "default", "store")]
        epoch = world.fleet.records["default.job"].epoch
        await started(world)
        assert world.status.epoch.number >= epoch

    played(play)


def test_deletion_removes_the_state_if_the_policy_says_so() -> None:
    async def play(world: World) -> None:
        await started(world, deletionPolicy="Delete")
        world.delete()
        await world.calm()
        assert world.fleet.records == {}

    played(play)


def test_two_applications_share_the_workers() -> None:
    async def play(world: World) -> None:
        await started(world, highAvailability=True)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2"]
        assert len(world.pods("worker")) == 2

    played(play)


def test_a_completed_job_ends_and_its_time_to_live_removes_it() -> None:
    async def play(world: World) -> None:
        await started(world, ttlAfterFinished="100s")
        world.fleet.records["default.job"].completed = True
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Completed", [])
        await world.calm(120)
        assert ("FlameStreamJob", "default", "job") not in world.kubernetes.things

    played(play)


def test_pods_of_a_dead_node_are_failed_and_removed_after_fencing() -> None:
    async def play(world: World) -> None:
        await started(world)
        victim = world.pods("worker")[0]
        world.kubernetes.merge(("Pod", "default", victim), {"spec": {"nodeName": "dead"}})
        uid = world.kubernetes.things[("Pod", "default", victim)]["metadata"]["uid"]
        node = {
            "metadata": {"name": "dead", "uid": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
        world.operators[0].cluster.nodes.put(node)
        await world.calm()
        there = world.kubernetes.things.get(("Pod", "default", victim))
        assert there is None or there["metadata"]["uid"] != uid
        assert world.status.phase == "Running"

    played(play)


def test_a_deadline_ends_the_job() -> None:
    async def play(world: World) -> None:
        await started(world, deadline="60s")
        await world.calm(90)
        assert (world.status.phase, world.condition("Failed").reason) == ("Failed", "DeadlineExceeded")

    played(play)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"checkpoint": {"interval": "1s", "store": "/folder"}}, "s3://bucket/prefix"),
        ({"highAvailability": True, "workers": {"replicas": 1}}, "two workers"),
        ({"sources": {"n": {"socket": {"address": "a:1"}}}, "journal": {"folder": "/journal"}}, "lost node"),
        (
            {
                "sources": {"n": {"socket": {"address": "a:1"}}},
                "journal": {"kafka": {"topic": "t"}, "folder": "/journal"},
            },
            "either a folder",
        ),
        ({"workers": {"replicas": 2, "resources": {"limits": {"memory": "64Mi"}}}}, "512Mi"),
        ({"guarantee": "twice"}, "is unknown"),
    ],
)
def test_a_spec_that_cannot_run_here_says_why(spec: dict[str, object], words: str) -> None:
    async def play(world: World) -> None:
        world.apply(**spec)
        await world.calm(5)
        assert world.status.phase == "Failed"
        assert words in world.condition("Failed").message
        assert world.pods("driver") == []

    played(play)


def test_savepoints_are_taken_by_the_clock_and_the_newest_are_kept() -> None:
    async def play(world: World) -> None:
        await started(world, savepoints={"every": "60s", "keep": 2})
        await world.calm(400)
        made = [name for kind, name, _ in world.kubernetes.created if kind == "FlameStreamSnapshot"]
        there = [thing["metadata"]["name"] for thing in world.kubernetes.of("FlameStreamSnapshot")]
        assert len(made) >= 6
        assert there == made[-2:]

    played(play)


def test_a_stream_that_saves_nothing_because_nothing_happens_is_ready_and_one_that_can_not_save_is_not() -> (
    None
):
    async def play(world: World) -> None:
        await started(world)
        record = world.fleet.records["default.job"]
        record.unsaved_since = world.now
        await world.calm(25)
        assert world.condition("Ready").status == "True"
        await world.calm(60)
        assert (world.condition("Ready").status, world.condition("Checkpointing").reason) == (
            "False",
            "EpochsLate",
        )
        record.unsaved_since = 0.0
        await world.calm(60)
        assert world.condition("Ready").status == "True"

    played(play)


def test_never_means_never() -> None:
    async def play(world: World) -> None:
        await started(world, restartPolicy="Never")
        world.kill("driver")
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Failed", [])
        assert world.condition("Failed").reason == "DriverDeleted"

    played(play)


def test_after_the_limit_nobody_tries_any_more_until_the_spec_changes() -> None:
    async def play(world: World) -> None:
        await started(world, backoff={"limit": 1})
        for _ in range(2):
            world.kill("driver")
            await world.calm(20)
        assert world.status.phase == "Failed"
        world.apply(backoff={"limit": 5})
        await world.calm()
        assert world.status.phase == "Running"

    played(play)


def test_a_driver_that_is_drained_has_its_successor_before_it_goes_and_it_is_no_failure() -> None:
    async def play(world: World) -> None:
        await started(world)
        pod = ("Pod", "default", "job-driver-a-1")
        going = {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 245,
            "finalizers": ["kubelet"],
        }
        world.kubernetes.merge(pod, {"metadata": going})
        await world.calm(1)
        assert world.kubernetes.things[pod]["metadata"]["deletionGracePeriodSeconds"] == 245, (
            "its workers carry the stream"
        )
        await world.calm(10)
        assert "job-driver-a-2" in world.pods("driver")
        assert world.kubernetes.things[pod]["metadata"]["deletionGracePeriodSeconds"] == 1, (
            "nobody needs it any more"
        )
        world.kubernetes.merge(pod, {"metadata": {"finalizers": []}})
        await world.calm()
        assert (world.status.phase, world.pods("driver"), world.status.failures.count) == (
            "Running",
            ["job-driver-a-2"],
            0,
        )

    played(play)


def test_a_workers_pod_is_ready_once_its_worker_is_connected() -> None:
    async def play(world: World) -> None:
        await started(world)
        pod = ("Pod", "default", world.pods("worker")[0])
        kubelets = {"type": "Initialized", "status": "True"}
        gated = {
            "spec": {"readinessGates": [{"conditionType": CONNECTED}]},
            "status": {"conditions": [kubelets]},
        }
        world.kubernetes.merge(pod, gated)
        await world.calm(10)
        told = {each["type"]: each["status"] for each in world.kubernetes.things[pod]["status"]["conditions"]}
        assert told == {"Initialized": "True", CONNECTED: "True"}

    played(play)


def test_a_leader_that_ends_by_plan_has_a_successor_at_once() -> None:
    async def play(world: World) -> None:
        lost: list[str] = []
        one, two = (
            Leadership(world.kubernetes, "default", "lease", name, 3600, lost.append)
            for name in ("one", "two")
        )
        await one.acquire()
        await one.release()
        assert not one.valid
        await asyncio.wait_for(two.acquire(), 5)
        await one.release()
        assert (
            two.valid,
            world.kubernetes.things["Lease", "default", "lease"]["spec"]["holderIdentity"],
        ) == (True, "two")

    played(play)


def test_a_new_leader_says_nothing_new_of_a_running_stream() -> None:
    async def play(world: World) -> None:
        from support.operator.operator_world import OneOperator

        await started(world)
        before = (world.status.phase, world.status.conditions, world.pods("driver"), world.pods("worker"))
        world.operators = [OneOperator(world, "successor", len(world.kubernetes.log))]
        for _ in range(5):
            await world.calm(1)
            assert (
                world.status.phase,
                world.status.conditions,
                world.pods("driver"),
                world.pods("worker"),
            ) == before

    played(play)


async def with_a_silent_node(world: World) -> None:
    """Application b is on a node of its own, of which nothing is heard any more."""
    await started(world, highAvailability=True, workers={"replicas": 2, "standby": 2})
    connected = {"status": {"conditions": [{"type": CONNECTED, "status": "True"}]}}
    for role in ("driver", "worker"):
        for name in world.pods(role):
            node = {"spec": {"nodeName": "far" if "-b-" in name else "near"}}
            world.kubernetes.merge(("Pod", "default", name), node | (connected if role == "worker" else {}))
    await world.calm(5)
    assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2"]
    world.fleet.cut.add("far")


def test_the_driver_of_a_node_that_is_not_heard_of_gets_a_successor_elsewhere_before_kubernetes_notices() -> (
    None
):
    async def play(world: World) -> None:
        await with_a_silent_node(world)
        world.fleet.cold = True
        await world.calm(1)
        assert len(world.pods("driver")) == 2, "Spark starts a worker again in a second"
        await world.calm(6)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2", "job-driver-b-3"]
        rules = world.kubernetes.things["Pod", "default", "job-driver-b-3"]["spec"]["affinity"][
            "nodeAffinity"
        ]
        fields = rules["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0][
            "matchFields"
        ]
        assert fields == [{"key": "metadata.name", "operator": "NotIn", "values": ["far"]}]
        world.fleet.cold = False
        await world.calm(20)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-3"]
        assert world.status.failures.count == 0

    played(play)


def test_a_node_that_is_heard_of_again_keeps_its_driver() -> None:
    async def play(world: World) -> None:
        await with_a_silent_node(world)
        world.fleet.cold = True  # the successor is not ready to take over yet
        await world.calm(7)
        assert "job-driver-b-3" in world.pods("driver")
        world.fleet.cut.clear()
        await world.calm(10)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2"]

    played(play)


def test_survivors_of_a_lost_drivers_node_carry_the_stream_until_others_are_there() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.kubernetes.merge(("Pod", "default", "job-driver-a-1"), {"spec": {"nodeName": "dead"}})
        node = {
            "metadata": {"name": "dead", "uid": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
        world.operators[0].cluster.nodes.put(node)
        for _ in range(60):
            await world.calm(1)
            status = world.operators[0].hosting.status("default.job")
            assert status is not None
            assert status.phase == "running" or world.pods("driver") == ["job-driver-a-2"]
            old = [name for name in world.pods("worker") if name.startswith("job-a-1-")]
            new = [name for name in world.pods("worker") if name.startswith("job-a-2-")]
            assert len(old) == 2 or len(new) == 2, "nobody carries the stream"
        assert (world.pods("driver"), world.status.phase) == (["job-driver-a-2"], "Running")

    played(play)


@pytest.mark.parametrize("seconds", [-7 * HOUR, 7 * HOUR])
def test_a_clock_that_is_set_delays_no_restart_and_no_stop(seconds: float) -> None:
    async def play(world: World) -> None:
        await started(world)
        for _ in range(4):
            world.kill("driver")
            await world.calm(3)
        world.set_clocks(seconds)
        await world.calm()
        assert world.status.phase == "Running", world.status
        world.apply(suspend=True)
        await world.calm(1)
        world.set_clocks(seconds)
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Suspended", [])

    played(play)


@pytest.mark.parametrize("seconds", [-7 * HOUR, 7 * HOUR])
def test_a_clock_that_is_set_disturbs_no_stream(seconds: float) -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)
        pods, attempt = (
            (world.pods("driver"), world.pods("worker")),
            world.fleet.records["default.job"].commits[-1][0],
        )
        world.set_clocks(seconds)
        await world.calm(60)
        assert (world.pods("driver"), world.pods("worker")) == pods
        assert world.fleet.records["default.job"].commits[-1][0] == attempt
        assert (world.condition("Ready").status, world.status.failures.count) == ("True", 0)

    played(play)


def test_a_class_of_the_users_is_never_imported_by_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def imported(name: str, *_: object) -> None:
        raise AssertionError(f"the operator imports {name}")

    async def play(world: World) -> None:
        monkeypatch.setattr("flamestream.connectors.kit.spec.importlib.import_module", imported)
        await started(
            world,
            sources={"n": {"connector": {"class": "mine:Source"}}},
            sinks={"out": {"connector": {"class": "mine:Sink"}}},
        )

    played(play)


def test_a_spec_is_read_once_however_often_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counted(document: Document) -> object:
        read.append(document.value["spec"])
        return job_of(document)

    monkeypatch.setattr(specs, "job_of", counted)

    async def play(world: World) -> None:
        await started(world)
        await world.calm(600)
        assert len(read) == 1, "one generation"
        world.apply(suspend=True)
        await world.calm()
        assert len(read) == 2, "another one"

    played(play)
