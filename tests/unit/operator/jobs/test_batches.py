"""A micro-batch job's life: the driver is the one worker that its coordinator knows, and executors compute."""

from support.operator.operator_world import World
from support.operator.plays import played, started

BATCHES = {"guarantee": "micro-batch"}


def test_it_runs_when_its_driver_is_connected_and_its_executors_run() -> None:
    async def play(world: World) -> None:
        await started(world, **BATCHES)
        assert (world.pods("driver"), len(world.pods("worker"))) == (["job-driver-a-1"], 2)
        assert world.condition("Ready").status == "True"
        assert (world.status.workers.summary, world.status.drivers[0].state) == ("2/2", "Running")

    played(play)


def test_it_stops_at_an_epoch_and_goes_on() -> None:
    async def play(world: World) -> None:
        await started(world, **BATCHES)
        world.apply(suspend=True, **BATCHES)
        await world.calm()
        assert (world.status.phase, world.pods("driver"), world.pods("worker")) == ("Suspended", [], [])
        assert world.status.suspension.epoch == world.fleet.records["default.job"].epoch
        world.apply(suspend=False, **BATCHES)
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Running", ["job-driver-a-2"])

    played(play)


def test_a_driver_that_is_replaced_hands_over_to_one_that_is_there() -> None:
    async def play(world: World) -> None:
        await started(world, **BATCHES)
        failures = world.status.failures.count
        world.apply(workers={"replicas": 3}, **BATCHES)
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Running", ["job-driver-a-2"])
        assert len(world.pods("worker")) == 3
        assert world.status.failures.count == failures

    played(play)


def test_a_driver_that_is_lost_has_a_successor() -> None:
    async def play(world: World) -> None:
        await started(world, **BATCHES)
        world.kubernetes.remove(("Pod", "default", "job-driver-a-1"))
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Running", ["job-driver-a-2"])

    played(play)


def test_a_completed_one_ends() -> None:
    async def play(world: World) -> None:
        await started(world, **BATCHES)
        world.fleet.records["default.job"].completed = True
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Completed", [])

    played(play)
