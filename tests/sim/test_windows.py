"""Programs in event time through crashes: sessions, joins, dedup, expiry and users' own end with the results
of the reference."""

from random import Random
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.model.windows import process
from flamestream.simulation.graphs import DEAD_LETTERS, SimJob
from flamestream.simulation.jobs.programs import program_job
from flamestream.testing import simulate
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 150, 25, at_push=50))
def test_results_are_those_of_the_reference(first: int) -> None:
    delivered = [simulate(seed, job=program_job(Random(seed))).delivered for seed in range(first, first + 25)]
    assert sum(map(bool, delivered)) > 20


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
@pytest.mark.parametrize("first", chunks(0, 50, 25, at_push=25))
def test_so_they_are_with_the_kernel(first: int) -> None:
    """Its rows are of other lengths (test_event_time.py says why), so no trace is the same."""
    assert kernel is not None
    for seed in range(first, first + 25):
        one, other = (
            simulate(seed, job=program_job(Random(seed)), parts=parts).delivered
            for parts in (REFERENCE, native(kernel))
        )
        assert (seed, other) == (seed, one)


@fs.event
class Numbered:
    number: int


def again(state: int, time: int) -> Any:
    return time, ((state, time),)


def test_a_timer_without_end_is_stopped_at_the_same_call_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_CALLS", 3)
    graph = fs.Graph("again", shards=3)
    graph.source("s0", at="number", unit="s").process(
        key=lambda record: record.number % 3,
        on_item=lambda state, record, now: (record.number, ()),
        on_time=again,
        due=lambda state: state + 1,
    ).sink("out", key=lambda result: result[1] % 2)
    job = SimJob(graph, DEAD_LETTERS, lambda rng, number: Numbered(number * 10), 1)
    for parts in (REFERENCE, *([] if kernel is None else [native(kernel)])):
        assert simulate(3, job=job, parts=parts).delivered > 10
