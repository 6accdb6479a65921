"""Edits: what a change of spec or code restarts, and that what cannot run never stops the stream."""

import json
from typing import Any

import pytest
from msgspec import to_builtins

from flamestream.job.located import Document
from flamestream.job.manifest import job_of
from flamestream_operator.jobs import spec as specs
from support.operator.operator_world import OneOperator, World
from support.operator.plays import played, started


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


def test_as_many_workers_run_as_the_coordinator_wants_between_min_and_max() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.apply(workers={"replicas": None, "min": 1, "max": 3})
        await world.calm(80)
        run = world.status.run.number
        for wanted, number in ((0, 2), (3, 3), (9, 3), (2, 2), (1, 1)):
            world.fleet.wanted = wanted
            await world.calm(120)
            told = world.status.workers
            assert (told.desired, told.ready, len(world.pods("worker"))) == (number, number, number), wanted
            assert len(world.pods("driver")) == 1
        world.fleet.wanted = 3
        await world.calm(120)
        world.fleet.wanted = 0
        world.apply(workers={"max": 2})
        await world.calm(120)
        assert (world.status.workers.desired, len(world.pods("worker"))) == (2, 2)
        assert (world.status.run.number, world.status.phase) == (run, "Running")

    played(play)


def test_where_the_number_is_said_nobody_else_changes_it() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.fleet.wanted = 3
        await world.calm(80)
        assert world.pods("driver") == ["job-driver-a-1"]

    played(play)


def test_new_code_takes_over_a_stream_that_runs() -> None:
    async def play(world: World) -> None:
        await started(world)
        digest, attempt = world.edit_code("print(2)"), world.fleet.records["default.job"].attempt
        await world.calm(80)
        assert (world.status.run.number, world.status.phase, world.pods("driver")) == (
            1,
            "Running",
            ["job-driver-a-2"],
        )
        record = world.fleet.records["default.job"]
        assert (record.code, record.attempt) == (digest, attempt + 1)  # one recovery, which is the tick
        assert (world.status.run.digest, world.status.run.next) == (digest, "")

    played(play)


def beside(world: World) -> dict[str, bool]:
    """Whether each driver was told that a stream runs beside it."""
    maps = {each["metadata"]["name"]: each.get("data") or {} for each in world.kubernetes.of("ConfigMap")}
    return {
        name: json.loads(data["driver-a.json"])["beside"]
        for name, data in maps.items()
        if name.startswith("job-driver-")
    }


def test_pods_that_start_beside_a_stream_leave_it_the_processors() -> None:
    async def play(world: World) -> None:
        await started(world)
        assert beside(world) == {"job-driver-a-1": False}, "nobody waits for less than all"
        world.edit_code("print(2)")
        await world.calm(80)
        assert beside(world)["job-driver-a-2"] is True

    played(play)


def test_code_that_is_watched_is_not_yet_what_is_gone_back_to() -> None:
    async def play(world: World) -> None:
        await started(world)
        first, epoch = world.status.run.code, world.status.epoch.number
        world.apply(upgrade={"watch": "200s"})
        world.edit_code("print(2)")
        await world.calm(100)
        assert world.status.run.before == first != world.status.run.code
        assert world.status.epoch.number > epoch
        assert world.status.last_stable is not None and world.status.last_stable.code == first
        await world.calm(200)
        assert world.status.last_stable.code == world.status.run.code != first

    played(play)


def hosted(world: World) -> Any:
    """The job's coordinator."""
    return world.operators[0].hosting.jobs["default.job"]


async def watched(world: World, seconds: int) -> tuple[str, str]:
    """The job goes on with other code, which is watched; the digests of both."""
    await started(world)
    first = world.status.run.digest
    world.apply(upgrade={"watch": f"{seconds}s"})
    second = world.edit_code("print(2)")
    await world.calm(20)
    assert (world.status.run.digest, bool(world.status.run.before)) == (second, True)
    return first, second


def test_an_edit_while_the_one_before_is_watched_waits_and_stops_nothing() -> None:
    async def play(world: World) -> None:
        _, second = await watched(world, 60)
        third = world.edit_code("print(3)")
        await world.calm(20)
        assert (world.status.run.digest, world.status.run.next) == (second, "")
        assert "waits until the one before" in world.status.message
        await world.calm(100)
        record = world.fleet.records["default.job"]
        assert (record.code, world.status.run.digest, world.status.run.number) == (third, third, 1)
        assert world.status.message == ""
        await world.calm(100)
        assert world.status.last_stable.code == world.status.run.code
        assert (world.status.turned, len(world.pods("driver"))) == (None, 1)

    played(play)


def test_code_is_watched_for_as_long_as_its_coordinator_says() -> None:
    async def play(world: World) -> None:
        await watched(world, 30)
        hosted(world).watch = [100, 100]  # a worker was lost
        await world.calm(60)
        assert world.status.run.before and len(world.pods("driver")) == 2
        await world.calm(80)
        assert not world.status.run.before and len(world.pods("driver")) == 1

    played(play)


def test_an_edit_that_waits_goes_on_from_the_code_before_where_the_watched_one_is_taken_back() -> None:
    async def play(world: World) -> None:
        first, _ = await watched(world, 60)
        third = world.edit_code("print(3)")
        await world.calm(5)
        hosted(world).take_back("it has failed")
        await world.calm(1)
        assert (world.status.run.digest, world.status.failures.reason) == (first, "TakenBack")
        await world.calm(60)
        assert (world.status.run.digest, world.status.run.number, world.status.rolled_back) == (third, 1, 0)

    played(play)


async def led_by_another(world: World) -> None:
    """The operator dies, and the next one leads."""
    world.operators = [OneOperator(world, "two", len(world.kubernetes.log))]
    world.operators[0].relist()
    await world.calm(2)


def test_code_is_watched_on_where_another_operator_leads_meanwhile() -> None:
    async def play(world: World) -> None:
        first, second = await watched(world, 100)
        await led_by_another(world)
        assert hosted(world).before[0] == first and hosted(world).watch[0]
        assert (world.status.run.digest, len(world.pods("driver"))) == (second, 2)
        hosted(world).take_back("it has failed")
        await world.calm(20)
        assert (world.status.run.digest, world.status.failures.reason) == (first, "TakenBack")
        assert world.status.run.number == 1, "no stop between"

    played(play)


def test_what_is_watched_no_more_is_not_watched_again_by_another_operator() -> None:
    async def play(world: World) -> None:
        await watched(world, 30)
        await world.calm(100)
        await led_by_another(world)
        assert hosted(world).before is None and len(world.pods("driver")) == 1

    played(play)


def test_code_that_is_taken_back_is_left_until_the_next_edit() -> None:
    async def play(world: World) -> None:
        first, _ = await watched(world, 60)
        hosted(world).take_back("it has failed")
        await world.calm(60)
        assert (world.status.run.digest, world.status.rolled_back > 0) == (first, True)
        assert world.condition("Degraded").reason == "RolledBack"

    played(play)


def test_who_goes_back_by_hand_waits_for_no_watch() -> None:
    async def play(world: World) -> None:
        first, _ = await watched(world, 200)
        assert world.edit_code("print(1)") == first
        await world.calm(40)
        assert (world.status.run.digest, world.status.run.number, world.status.run.before) == (first, 1, "")

    played(play)


def test_an_edit_that_waits_for_code_that_does_not_run_comes_by_a_stop() -> None:
    async def play(world: World) -> None:
        await watched(world, 20)
        world.fleet.cut = {"node1"}
        third = world.edit_code("print(3)")
        await world.calm(50)
        assert (world.status.run.stage, world.status.run.number) == ("Running", 1)
        await world.calm(60)
        assert world.status.run.number == 2
        world.fleet.cut = set()
        await world.calm(120)
        assert (world.status.run.digest, world.status.run.number) == (third, 2)

    played(play)


def test_new_code_drains_to_an_epoch_first_where_the_spec_says_so() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.apply(upgrade={"strategy": "Restore"})
        world.edit_code("print(2)")
        await world.calm(80)
        assert (world.status.run.number, world.status.phase, world.pods("driver")) == (
            2,
            "Running",
            ["job-driver-a-2"],
        )

    played(play)


def test_what_is_more_than_code_drains_too() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.apply(workers={"replicas": 2, "slots": 512})
        world.edit_code("print(2)")
        await world.calm(80)
        assert (world.status.run.number, world.status.phase) == (2, "Running")

    played(play)


def test_an_edit_that_is_taken_back_leaves_the_stream_as_it_is() -> None:
    async def play(world: World) -> None:
        await started(world)
        attempt, before = world.fleet.records["default.job"].attempt, world.status.run.digest
        world.edit_code("print(2)")
        await world.calm(2)
        world.edit_code("print(1)")
        await world.calm(60)
        assert (world.status.run.next, world.status.run.digest) == ("", before)
        assert (world.pods("driver"), world.status.phase) == (["job-driver-a-1"], "Running")
        assert world.fleet.records["default.job"].attempt == attempt

    played(play)


def test_a_trial_is_made_again_when_the_spec_drops_the_state_that_was_in_its_way() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.fleet.broken_digest = world.edit_code("print('an operation less')")
        await world.calm(60)
        assert (world.status.run.number, world.condition("Degraded").reason) == (1, "RolledBack")
        world.fleet.broken_digest = ""
        world.apply(upgrade={"drop": ["visits"]})
        await world.calm(60)
        assert (world.status.phase, world.status.rolled_back) == ("Running", 0)
        assert world.condition("Degraded").status == "False"

    played(play)


CANARY = {
    "records": 8, "equal": 5, "differ": 3, "newErrors": 0, "microsBefore": 1.5, "microsAfter": 2.5,
    "summary": "canary: 8 records", "examples": ["sums, of record 1 of numbers"],
}  # fmt: skip


def test_the_status_says_what_the_canary_of_a_trial_has_found() -> None:
    """It is tried beside the code that runs, whose files the pod has; what differs refuses nothing."""

    async def play(world: World) -> None:
        await started(world)
        world.fleet.canary = CANARY
        digest = world.edit_code("print(2)")
        await world.calm(80)
        trial = world.status.preflight
        assert trial is not None and trial.canary is not None
        assert to_builtins(trial.canary) == CANARY
        assert (world.status.run.digest, world.status.phase) == (digest, "Running")

    played(play)


def test_code_that_its_canary_refuses_goes_on_where_the_spec_asks_for_none() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.fleet.canary, before = CANARY | {"newErrors": 2}, world.status.run.digest
        digest = world.edit_code("print(2)")
        await world.calm(60)
        trial = world.status.preflight
        assert trial is not None and trial.canary is not None
        assert (trial.state, trial.canary.new_errors, world.status.run.digest) == ("Failed", 2, before)
        assert world.condition("Degraded").reason == "RolledBack"
        world.apply(upgrade={"canary": 0})
        await world.calm(80)
        assert (world.status.run.digest, world.status.rolled_back, world.status.run.number) == (digest, 0, 1)
        assert world.status.preflight is not None and world.status.preflight.canary is None

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
        assert (world.status.phase, world.status.rolled_back) == ("Running", 0)
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
