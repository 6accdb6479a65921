"""The start of a new job: when it begins, with whom, and which workers are refused."""

import pytest
from msgspec.structs import replace

from flamestream.core.coordinator.coordination import (
    Disconnect,
    WorkerConnected,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import Inventory
from flamestream.model.ids import (
    Attempt,
    Fence,
    LayoutVersion,
    SinkName,
)
from flamestream.model.meta import meta_of
from flamestream.model.state_names import Operation, number_of
from flamestream.model.time import START, FrontId, Timestamp, time_of
from support.core.coordinating import SECOND, Bench, running


def test_nothing_happens_before_the_record_is_known() -> None:
    bench = Bench()
    bench.held.add(type(bench.coordinator.step(bench.outside.now, [])[0]))
    bench.connect("a", "b")
    assert bench.told == []
    assert bench.status.phase == "starting"


def test_a_new_job_begins_when_as_many_workers_are_there_as_it_wants() -> None:
    bench = Bench().say().connect("a")
    assert bench.outside.record is None
    bench.connect("b")
    assert bench.record.attempt == 1
    assert bench.workers == ("a", "b")
    recover = bench.last(msg.Recover, "b")
    assert recover.assignment.fence == Fence(Attempt(1), LayoutVersion(1))
    assert recover.addresses == {"a": "a:1", "b": "b:1"}
    assert (recover.cut, recover.epoch, recover.index) == (START, 0, None)


def test_a_new_job_does_not_wait_for_ever_for_all_workers() -> None:
    bench = Bench(gather_us=10 * SECOND).say().connect("a").sleep(9 * SECOND)
    assert bench.outside.record is None
    bench.sleep(2 * SECOND)
    assert bench.workers == ("a",)


def test_sealing_waits_for_all_to_have_opened_and_replay_for_all_to_have_sealed() -> None:
    bench = Bench().say().connect("a", "b")
    bench.opened("a")
    assert bench.last(msg.Seal) is None
    bench.opened("b")
    assert bench.count(msg.Seal) == 2
    bench.sealed("b")
    assert bench.last(msg.Replay) is None
    bench.sealed("a")
    assert bench.count(msg.Replay) == 2
    assert bench.status.phase == "running"


@pytest.mark.parametrize("committed", [False, True])
def test_other_slots_are_refused_before_the_first_commit_too(committed: bool) -> None:
    """Consumers know what they were given by the slots that the job began with."""
    before = running("a", "b", slots=4)
    if committed:
        before.epoch(5)
    bench = Bench(before.outside, "n2", slots=8, discovery_us=0).say().connect("a", "b")
    assert (bench.end.outcome, bench.end.category) == ("failed", "user")
    assert "4 slots" in bench.end.message
    assert len(bench.record.layout.owners) == 4


def test_other_slots_are_refused_while_the_stream_runs_and_it_runs_on() -> None:
    before = running("a", "b", slots=4)
    bench = Bench(before.outside, "n2", slots=8).say().connect("a", "b", ready=before.fence)
    assert "4 slots" in bench.end.message
    assert bench.count(msg.Stop) == 0
    again = Bench(before.outside, "n3", slots=4).say().connect("a", "b", ready=before.fence)
    assert again.status.phase == "running"


def test_a_job_without_a_guarantee_may_get_other_slots() -> None:
    before = running("a", "b", slots=4, interval_us=None)
    bench = Bench(before.outside, "n2", slots=8, discovery_us=0, interval_us=None).say().connect("a", "b")
    assert len(bench.record.layout.owners) == 8


def test_the_bound_is_above_all_that_was_released_or_journalled() -> None:
    released, journalled = time_of(Timestamp(50), FrontId(0)), time_of(Timestamp(70), FrontId(0))
    bench = Bench().say().connect("a", "b")
    bench.opened("a", meta_of(released, 3)).opened("b").sealed("a").sealed("b", journalled)
    assert bench.last(msg.Replay).bound == journalled
    bench = Bench().say().connect("a", "b")
    bench.opened("a").opened("b", meta_of(journalled, 3)).sealed("a", released).sealed("b")
    assert bench.last(msg.Replay).bound == journalled


@pytest.mark.parametrize(("graph", "python"), [("other", "3.11"), ("g", "3.12")])
def test_a_worker_of_another_graph_or_python_is_refused(graph: str, python: str) -> None:
    bench = Bench(workers=1).say(Bench().hello("a", graph=graph, python=python))
    assert bench.outside.record is None
    assert any(isinstance(action, Disconnect) for action in bench.actions)
    assert "worker a was refused" in bench.status.problems[0]


def test_a_worker_that_calls_an_operation_otherwise_is_refused() -> None:
    """Names are made of functions, and nobody would find what it wrote."""

    def of(name: str) -> Inventory:
        return Inventory(
            ("lines",), (SinkName("out"),), (Operation(number_of(name), name, "a fold", place=1),)
        )

    hello = Bench().hello("a").hello
    bench = Bench(workers=1, inventory=of("total by key"))
    bench.say(WorkerConnected(replace(hello, inventory=of("total by other"))))
    assert bench.outside.record is None and "'total by other'" in bench.status.problems[0]
    bench.say(WorkerConnected(replace(hello, inventory=of("total by key"))))
    assert bench.outside.record is not None


def test_a_worker_that_has_loaded_edited_code_is_refused() -> None:
    bench = Bench(workers=1, code="old").say(Bench().hello("a", code="new"))
    assert bench.outside.record is None
    assert "put them back" in bench.status.problems[0]


def test_each_attempt_has_its_own_key() -> None:
    bench = Bench().say().connect("a", "b")
    first = bench.last(msg.Recover).key
    bench.recover().lose("b").connect("c")
    assert bench.last(msg.Recover).key != first
