"""A job's life: applied, suspended and resumed, saved, completed, ended by its deadline, deleted."""

from support.operator.operator_world import World
from support.operator.plays import played, started


def test_an_applied_job_runs() -> None:
    async def play(world: World) -> None:
        await started(world)
        assert world.pods("driver") == ["job-driver-a-1"]
        assert len(world.pods("worker")) == 2
        assert world.condition("Ready").status == "True"
        assert world.status.workers.summary == "2/2"

    played(play)


def test_two_applications_share_the_workers() -> None:
    async def play(world: World) -> None:
        await started(world, highAvailability=True)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2"]
        assert len(world.pods("worker")) == 2

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


def test_savepoints_are_taken_by_the_clock_and_the_newest_are_kept() -> None:
    async def play(world: World) -> None:
        await started(world, savepoints={"every": "60s", "keep": 2})
        await world.calm(400)
        made = [name for kind, name, _ in world.kubernetes.created if kind == "FlameStreamSnapshot"]
        there = [thing["metadata"]["name"] for thing in world.kubernetes.of("FlameStreamSnapshot")]
        assert len(made) >= 6
        assert there == made[-2:]

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


def test_a_deadline_ends_the_job() -> None:
    async def play(world: World) -> None:
        await started(world, deadline="60s")
        await world.calm(90)
        assert (world.status.phase, world.condition("Failed").reason) == ("Failed", "DeadlineExceeded")

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
