"""Spans of workers that nobody lets talk about it form one tree a run, whatever the schedule and whoever dies."""

from random import Random
from types import SimpleNamespace

import pytest

from flamestream.core.protocol.actions import Deliver
from flamestream.core.protocol.messages import Progress
from flamestream.model import payload as codec
from flamestream.model.ids import WorkerId
from flamestream.node.tracing import traced_worker
from flamestream.node.tracing.identities import continued, traceparent
from support.core.core_cluster import CoreCluster
from support.core.letters import letters
from support.traces.traced_cluster import TracedCluster, orphans

SEEDS = range(25)
TEXT = "abcabcabdeeeffabcazzyx"
CALLER = traceparent(0xABC, 0xDEF)


def fed(seed: int, **changes: object) -> TracedCluster:
    cluster = TracedCluster(letters(), 3, seed, **changes).recover()  # type: ignore[arg-type]
    assert isinstance(cluster, TracedCluster)
    cluster.feed(0, *TEXT)
    cluster.run()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("timed", [(), (0,)])
@pytest.mark.parametrize("heartbeat", [1, 1 << 50])
def test_each_run_is_one_tree_without_orphans(seed: int, timed: tuple[int, ...], heartbeat: int) -> None:
    cluster = fed(seed, timed=timed, heartbeat=heartbeat)
    spans = cluster.all_spans()
    assert orphans(spans) == []
    recovery = {span.trace for span in spans if span.name == "recovery"}
    runs = {span.trace for span in spans if span.name == "source s0"}
    assert runs and {span.trace for span in spans} == runs | recovery
    assert any(span.name.startswith("link") for span in spans)
    assert runs <= {span.trace for span in spans if span.name == "sink out"}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_computed_is_what_an_untraced_worker_computes(seed: int) -> None:
    plain = CoreCluster(letters(), 3, seed).recover()
    plain.feed(0, *TEXT)
    plain.run()
    traced = fed(seed)
    assert [sink.taken for sink in plain.sinks.values()] == [sink.taken for sink in traced.sinks.values()]
    assert len(plain.done) == len(traced.done)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_that_is_killed_leaves_no_orphan_whatever_it_had_told(seed: int) -> None:
    rng = Random(seed)
    cluster = TracedCluster(letters(), 3, seed).recover()
    assert isinstance(cluster, TracedCluster)
    cluster.feed(0, *TEXT)
    cluster.run(rng.randrange(20, 120))
    victim = rng.choice(sorted(cluster.workers))
    told = cluster.spans[victim]
    del told[rng.randrange(len(told) + 1) :]  # what it had not exported, last given last
    cluster.crash(WorkerId(victim))
    cluster.add()
    cluster.recover()
    cluster.run()
    assert orphans(cluster.all_spans()) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_computes_the_same_ids(seed: int) -> None:
    cluster = fed(seed)
    before = {(span.trace, span.id, span.name) for span in cluster.all_spans() if span.name == "source s0"}
    cluster.recover()
    cluster.run()
    after = {(span.trace, span.id, span.name) for span in cluster.all_spans() if span.name == "source s0"}
    assert before and after == before


@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_with_a_context_is_in_its_callers_trace_on_every_worker_and_at_the_sink(seed: int) -> None:
    cluster = TracedCluster(letters(), 3, seed, every=1 << 40).recover()
    assert isinstance(cluster, TracedCluster)
    for offset, letter in enumerate(TEXT):
        cluster.record(offset, letter, traceparent(0xABC0 + offset, 0xDEF) if offset % 3 == 0 else "")
    cluster.run()
    spans = [
        span for span in cluster.all_spans() if span.name.split()[0] in ("source", "process", "link", "sink")
    ]
    wanted = {0xABC0 + offset for offset in range(0, len(TEXT), 3)}
    assert {span.trace for span in spans} == wanted
    assert {span.trace for span in spans if span.name == "sink out"} == wanted
    assert orphans(spans, {0xDEF}) == []
    assert {span.parent for span in spans if span.name == "source s0"} == {0xDEF}


@pytest.mark.parametrize("seed", SEEDS)
def test_who_gets_a_result_gets_its_place_in_the_trace(seed: int) -> None:
    cluster = TracedCluster(letters(), 3, seed, every=1 << 40).recover()
    assert isinstance(cluster, TracedCluster)
    for offset, letter in enumerate(TEXT):
        cluster.record(offset, letter, CALLER if offset == 7 else "")
    cluster.run()
    told = [getattr(action, "traces", None) for _, action in cluster.done]
    contexts = [context for traces in told if traces for context in traces.values()]
    sinks = {span.id for span in cluster.all_spans() if span.name == "sink out"}
    assert contexts
    for context in contexts:
        trace = continued(b"", context)
        assert trace is not None and trace.id == 0xABC and trace.caller in sinks


@pytest.mark.parametrize("seed", SEEDS)
def test_a_delivery_hangs_on_what_its_worker_processed(seed: int) -> None:
    spans = fed(seed).all_spans()
    worker = "flamestream.worker"
    processed = {(span.id, span.attributes[worker]) for span in spans if span.name == "process"}
    assert {(span.parent, span.attributes[worker]) for span in spans if span.name == "sink out"} <= processed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_not_settled_does_not_have_the_results_of_later_ones_decoded(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []

    def counted(items: bytes) -> list[tuple[bytes, object]]:
        decoded.append(items)
        return codec.decode_items(items)

    monkeypatch.setattr(traced_worker, "codec", SimpleNamespace(decode_items=counted))
    cluster = TracedCluster(letters(), 3, seed, every=1 << 40, heartbeat=1 << 50).recover()
    assert isinstance(cluster, TracedCluster)
    for offset, letter in enumerate(TEXT * 4):
        cluster.record(offset, letter, CALLER if offset == 2 else "")
        cluster.run()
    calls = [action for _, action in cluster.done if isinstance(action, Deliver)]
    traced = [action for action in calls if action.traces]
    # The first call of each worker too, before which nothing is known.
    most = sum(len(action.bundles) for action in traced) + len(cluster.workers)
    assert traced and len(decoded) <= most < len(calls) / 4


def test_of_many_runs_only_those_are_traced_that_are_sampled() -> None:
    few, all_ = fed(3, every=4), fed(3)
    assert {span.trace for span in few.all_spans()} < {span.trace for span in all_.all_spans()}


def test_a_recovery_is_a_trace_with_its_steps() -> None:
    cluster = fed(1, heartbeat=10)
    names = {span.name for span in cluster.all_spans()}
    assert {"recovery", "open w0", "seal w0", "replay w0", "open w2"} <= names


def test_a_replay_is_as_long_as_its_worker_says() -> None:
    cluster = fed(1, heartbeat=10)
    (span,) = {span.id: span for span in cluster.all_spans() if span.name == "replay w0"}.values()
    assert span.end - span.start == max(told.replay_us for told in cluster.heard(Progress))
