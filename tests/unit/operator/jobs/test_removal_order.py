"""The order of effects at an end: nothing is removed that somebody could still write, or that carries the
stream. Swapped, each is seen here."""

from typing import Any

import pytest

from flamestream.job.moments import moment
from flamestream_operator.jobs import actions as do
from support.operator.operator_world import KEY, World
from support.operator.plays import drained_node, started
from support.operator.watched import Watched, played


def test_a_worker_on_a_dead_node_is_fenced_then_failed_then_removed() -> None:
    """Spark makes another as soon as it hears of the failure, and a pod that is removed says nothing any
    more."""

    async def play(world: World, watched: Watched) -> None:
        await started(world)
        victim = world.pods("worker")[0]
        ip = watched.ip(victim)
        assert ip in watched.slots_of()
        told: list[str] = []

        def look(action: Any) -> None:
            if isinstance(action, do.Gone) and action.ip == ip:
                told.append("gone")
            if isinstance(action, do.DeletePod) and action.name == victim:
                assert told == ["gone"] and action.fail and action.grace == 0
                assert ip not in watched.slots_of(), "it has slots: a zombie's word still counts"
                told.append("removed")

        watched.look = look
        seen, uid = (
            len(world.kubernetes.log),
            world.kubernetes.things[("Pod", "default", victim)]["metadata"]["uid"],
        )
        world.kubernetes.merge(("Pod", "default", victim), {"spec": {"nodeName": "dead"}})
        node = {
            "metadata": {"name": "dead", "uid": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
        world.operators[0].cluster.nodes.put(node)
        await world.calm()
        assert told[:2] == ["gone", "removed"]
        log = [(kind, pod) for kind, pod in world.kubernetes.log[seen:] if pod["metadata"]["uid"] == uid]
        assert [(kind, pod["status"]["phase"]) for kind, pod in log][-2:] == [
            ("MODIFIED", "Failed"),
            ("DELETED", "Failed"),
        ]

    played(play)


def test_a_driver_on_a_dead_node_goes_only_when_no_worker_of_it_counts() -> None:
    """Its pod's removal takes its workers' pods along, on whatever node they are."""

    async def play(world: World, watched: Watched) -> None:
        await started(world, highAvailability=True)
        victim = next(name for name in world.pods("driver") if "-a-" in name)
        mine = [watched.ip(pod) for pod in world.pods("worker") if "-a-1-" in pod]
        removed: list[str] = []

        def look(action: Any) -> None:
            if isinstance(action, do.DeletePod) and action.name == victim:
                assert not set(mine) & set(watched.slots_of())
                assert action.grace == 0, "its kubelet says nothing any more: it would never go"
                removed.append(victim)

        watched.look = look
        world.kubernetes.merge(("Pod", "default", victim), {"spec": {"nodeName": "dead"}})
        node = {
            "metadata": {"name": "dead", "uid": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
        world.operators[0].cluster.nodes.put(node)
        await world.calm(80)
        assert removed == [victim]
        assert world.status.phase == "Running"

    played(play)


def test_a_suspension_drains_before_any_pod_goes() -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world)

        def look(action: Any) -> None:
            if isinstance(action, do.DeletePod):
                assert (world.status.run.stage, world.status.suspension.clean) == ("Stopped", True)

        watched.look = look
        watched.actions.clear()
        world.apply(suspend=True)
        await world.calm()
        assert watched.kinds(do.Suspend, do.End, do.DeletePod) == [do.Suspend, do.DeletePod]

    played(play)


def test_pods_that_are_replaced_have_a_successor_first_then_hand_over_then_go() -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world)
        old = {watched.ip(pod) for pod in world.pods("worker")}
        made: list[str] = []

        def look(action: Any) -> None:
            if isinstance(action, do.Create) and action.thing["kind"] == "Pod":
                made.append("made")
            if isinstance(action, do.Retire):
                members = world.operators[0].hosting.members("default.job")
                assert len([member for member in members if member.ip not in old]) >= 2, (
                    "all of the successor's workers are connected"
                )
                made.append("retired")
            if isinstance(action, do.DeletePod) and action.name == "job-driver-a-1":
                assert not old & set(watched.slots_of())
                made.append("removed")

        watched.look = look
        world.apply(workers={"replicas": 2, "resources": {"limits": {"memory": "3Gi"}}})
        await world.calm(60)
        assert made == ["made", "retired", "removed"]

    played(play)


@pytest.mark.parametrize("policy", ["Keep", "Delete"])
def test_a_deleted_job_ends_its_stream_then_its_pods_then_its_state_then_itself(policy: str) -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world, deletionPolicy=policy)
        world.snapshot("kept")
        await world.calm()
        watched.actions.clear()
        slow = ("Pod", KEY[0], world.pods("driver")[0])
        world.kubernetes.merge(slow, {"metadata": {"finalizers": ["a/slow-end"]}})

        def look(action: Any) -> None:
            pods = [*world.pods("driver"), *world.pods("worker")]
            if isinstance(action, do.End | do.DeletePod):
                assert world.status.phase == "Deleting", "announced before it is done"
            if isinstance(action, do.DeletePod):
                assert not watched.slots_of(), "the stream has ended"
            if isinstance(action, do.DeleteSnapshot | do.Abandon | do.Begin):
                assert pods == [], "nobody could write any more"
            if isinstance(action, do.Begin):
                snapshots = list(world.kubernetes.of("FlameStreamSnapshot"))
                assert snapshots == [], (
                    "a savepoint's objects are found by its own name, and its keys in the job's Secret"
                )
            if isinstance(action, do.SetFinalizer):
                assert policy == "Keep" or "default.job" not in world.fleet.records, (
                    "nobody would remove it any more"
                )

        watched.look = look
        world.delete()
        await world.calm()
        world.kubernetes.merge(slow, {"metadata": {"finalizers": None}})
        await world.calm()
        ending = watched.kinds(do.End, do.DeletePod, do.DeleteSnapshot, do.Abandon, do.Begin, do.SetFinalizer)
        before = [do.End, do.DeletePod]
        assert [kind for place, kind in enumerate(ending) if kind not in ending[:place]] == (
            [*before, do.Abandon, do.SetFinalizer] if policy == "Keep" else
            [*before, do.DeleteSnapshot, do.Abandon, do.Begin, do.SetFinalizer]
        )  # fmt: skip
        assert ("FlameStreamJob", *KEY) not in world.kubernetes.things

    played(play)


def test_workers_that_were_told_to_stop_get_a_moment_and_are_coordinated_as_long_as_they_are_there() -> None:
    """They hear the end of the job from their coordinator, and leave by themselves."""

    async def play(world: World, watched: Watched) -> None:
        await started(world)
        hosting = world.operators[0].hosting
        members, leaving = hosting.members("default.job"), [True]
        hosting.members = lambda job: members if leaving else ()  # type: ignore[method-assign]

        def look(action: Any) -> None:
            assert not isinstance(action, do.Abandon) or not leaving
            if isinstance(action, do.DeletePod):
                assert world.now - moment(world.status.suspension.time) >= 5

        watched.look = look
        world.apply(suspend=True)
        await world.calm(20)
        assert do.DeletePod in watched.kinds(do.DeletePod)
        leaving.clear()
        await world.calm(5)
        assert do.Abandon in watched.kinds(do.Abandon)

    played(play)


def test_nobody_is_retired_beside_another_while_those_that_would_take_over_have_not_read_the_state() -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world, workers={"replicas": 2, "standby": 2})
        world.fleet.cold = True
        pods = drained_node(world)
        watched.actions.clear()
        world.operators[0].relist()
        await world.operators[0].reconcile()
        assert [action for action in watched.actions if isinstance(action, do.Retire)] == [
            do.Retire((watched.ip(pods[0][2]),))
        ]

    played(play)


@pytest.mark.parametrize(
    "final",
    [do.DeletePod("job-driver-a-1"), do.Suspend(), do.End()],
    ids=lambda action: type(action).__name__,
)
def test_what_cannot_be_taken_back_is_not_done_on_an_old_copy_of_the_job(final: Any) -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world)
        jobs, old = world.operators[0].jobs, world.job
        world.apply(suspend=False, labels={})
        memory = jobs.memory_of(KEY)
        assert memory is not None
        watched.actions.clear()
        await jobs._carry_out(KEY, memory, old, do.Decision([final]))
        assert watched.actions == []
        await jobs._carry_out(KEY, memory, world.job, do.Decision([final]))
        assert watched.actions == [final]

    played(play)
