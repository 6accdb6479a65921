"""The status of a job: what it says of a running stream, and how seldom it is written."""

from collections.abc import Callable

import pytest

from flamestream.model.event_time import END_OF_TIME
from flamestream.model.ids import SourceName
from flamestream_operator.api.job_status import ItemsStatus
from flamestream_operator.objects.meta import CONNECTED
from support.operator.operator_world import World
from support.operator.plays import played, started


def test_a_quiet_job_asks_nothing_of_the_api_server() -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)  # past the moment at which the stable spec is written
        before = world.kubernetes.requests
        await world.calm(600)
        assert world.kubernetes.requests - before <= 600 / 180 + 1

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
        assert world.kubernetes.requests - before <= 600 / 180 + 1
        assert world.status.late["clicks"] > 600 - 2 * 180

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


def finish(world: World) -> None:
    """Its input is through."""
    world.fleet.records["default.job"].completed = True


@pytest.mark.parametrize(
    ("end", "phase"),
    [(finish, "Completed"), (lambda world: world.apply(suspend=True), "Suspended")],
)
def test_the_last_figures_of_a_run_are_what_it_has_come_to(end: Callable[[World], None], phase: str) -> None:
    """Figures alone are written every three minutes: those of the end come with it."""

    async def play(world: World) -> None:
        await started(world)
        hosted = world.operators[0].hosting.jobs["default.job"]
        hosted.problems = ["a source is away"]
        await world.calm(60)  # past the moment at which the stable spec is written
        assert world.status.problems
        hosted.items = 400
        end(world)
        await world.calm()
        workers = len(hosted.layout)
        assert (world.status.phase, world.status.workers.ready, world.status.problems) == (phase, 0, [])
        assert world.status.items == ItemsStatus(400 * workers, 400 * workers)

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
