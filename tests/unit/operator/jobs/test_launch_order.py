"""The order of effects at a start: what each one may rest on when it is carried out. Swapped, each is seen
here."""

from typing import Any

from flamestream_operator.jobs import actions as do
from flamestream_operator.objects.meta import CONNECTED, ROLE
from support.operator.operator_world import KEY, World
from support.operator.plays import started
from support.operator.watched import Watched, played


def test_a_launch_makes_what_the_driver_needs_before_the_driver() -> None:
    """And tries a worker's pod before the ConfigMap that counts as a launch's beginning."""

    async def play(world: World, watched: Watched) -> None:
        tried: list[int] = []
        watched.look = lambda action: (
            tried.append(len(world.kubernetes.created)) if isinstance(action, do.Try) else None
        )
        await started(world)
        made = [
            (kind, name)
            for kind, name, _ in world.kubernetes.created
            if kind not in ("FlameStreamJob", "Event")
        ]
        copy, driver = (
            next(name for kind, name in made if name.startswith("job-app-")),
            "flamestream-job-driver",
        )
        wanted = [
            ("Secret", "job-token-1"), ("Service", "job-pods"), ("ServiceAccount", driver), ("Role", driver),
            ("RoleBinding", driver), ("PodDisruptionBudget", "job-workers"), ("ConfigMap", copy),
            ("ConfigMap", "job-driver-a-1"), ("Pod", "job-driver-a-1"),
        ]  # fmt: skip
        ours = [thing for thing in made if thing in wanted]
        assert ours == wanted
        config = next(
            place for place, (_, name, _) in enumerate(world.kubernetes.created) if name == "job-driver-a-1"
        )
        assert tried == [config], "after everything but the ConfigMap of the launch"

    played(play)


def test_a_coordinator_is_told_before_the_driver_is_made() -> None:
    """Workers that dial are known at once."""

    async def play(world: World, watched: Watched) -> None:
        await started(world)
        assert watched.kinds(do.ReadSecrets, do.Coordinate, do.Create)[:3] == [
            do.ReadSecrets,
            do.Coordinate,
            do.Create,
        ]

    played(play)


def test_nothing_is_done_before_the_finalizer_is_there_and_the_status_is_written() -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world)
        assert type(watched.actions[0]) is do.SetFinalizer
        effects = watched.kinds(do.WriteStatus, do.ReadSecrets, do.Coordinate, do.Create)
        assert effects[:2] == [do.WriteStatus, do.ReadSecrets]

    played(play)


def test_a_restore_is_done_before_anybody_coordinates() -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world)
        world.snapshot("before")
        await world.calm()
        epoch = world.kubernetes.things[("FlameStreamSnapshot", "default", "before")]["status"]["epoch"]
        world.delete()
        await world.calm()
        del world.fleet.records["default.job"]
        watched.actions.clear()

        def look(action: Any) -> None:
            if isinstance(action, do.Coordinate | do.Create) and getattr(action, "key", "").startswith(
                ("launch", "")
            ):
                trial = isinstance(action, do.Create) and action.key.startswith("aside")
                assert trial or world.fleet.records["default.job"].epoch >= epoch

        watched.look = look
        await started(world, restoreFrom={"snapshot": "before"})
        assert watched.kinds(do.Begin, do.Coordinate) == [do.Begin, do.Coordinate]

    played(play)


def test_a_fresh_start_forgets_only_when_the_pods_of_the_old_run_are_gone() -> None:
    async def play(world: World, watched: Watched) -> None:
        await started(world)

        def look(action: Any) -> None:
            if isinstance(action, do.Begin):
                assert [*world.pods("driver"), *world.pods("worker")] == [], (
                    "somebody could still write what is being removed"
                )

        watched.look = look
        watched.actions.clear()
        slow = ("Pod", KEY[0], world.pods("driver")[0])
        world.kubernetes.merge(slow, {"metadata": {"finalizers": ["a/slow-end"]}})
        world.apply(upgrade={"strategy": "Fresh"})
        world.edit_code("print(2)")
        await world.calm()
        assert world.status.run.stage == "Forgetting"
        world.kubernetes.merge(slow, {"metadata": {"finalizers": None}})
        await world.calm()
        assert (world.status.run.number, world.status.phase) == (2, "Running")
        assert [
            kind
            for kind in watched.kinds(do.Suspend, do.DeletePod, do.Begin, do.Coordinate)
            if kind is not do.Coordinate
        ] == [
            do.Suspend,
            do.DeletePod,
            do.Begin,
        ]

    played(play)


def test_a_worker_is_ready_only_when_it_is_connected() -> None:
    async def play(world: World, watched: Watched) -> None:
        def look(action: Any) -> None:
            if isinstance(action, do.MarkReady):
                ips = {member.ip for member in world.operators[0].hosting.members("default.job")}
                assert action.pod["status"]["podIP"] in ips

        watched.look = look
        await started(world)
        one, other = world.pods("worker")
        for name in (one, other):
            world.kubernetes.merge(
                ("Pod", KEY[0], name), {"spec": {"readinessGates": [{"conditionType": CONNECTED}]}}
            )
        world.kubernetes.merge(("Pod", KEY[0], other), {"spec": {"nodeName": "silent"}})
        world.fleet.cut.add("silent")
        await world.calm(5)
        ready = {
            pod["metadata"]["name"]: CONNECTED
            in {each["type"] for each in pod["status"].get("conditions") or ()}
            for pod in world.kubernetes.of("Pod")
            if pod["metadata"]["labels"].get(ROLE) == "worker"
        }
        assert ready == {one: True, other: False}

    played(play)


def test_nothing_is_launched_without_the_run_s_token() -> None:
    async def play(world: World, watched: Watched) -> None:
        world.apply(checkpoint={"interval": "1s", "store": "s3://bucket/j", "secret": "not-there"})
        await world.calm(30)
        assert watched.kinds(do.Coordinate, do.Create) == []

    played(play)
