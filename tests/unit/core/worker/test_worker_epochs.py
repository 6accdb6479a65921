"""A worker's part in an epoch: what it accepts is durable, complete, and fits what was committed before."""

from typing import Any

import pytest

from flamestream.core.dataflow.keyed_state import KeyedState
from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.model.collections import Vector
from flamestream.model.graph import Graph
from flamestream.model.ids import Epoch, WorkerId
from flamestream.model.time import START, FrontId, Timestamp
from support.core.core_cluster import CoreCluster

ONE = WorkerId("w0")


def _graph() -> Graph:
    """Growing vectors, whose snapshots are deltas; and windows."""
    graph = Graph("g")
    grown = graph.source("s0").reduce(
        key=lambda p: p[0], initial=lambda: Vector(range(100)), combine=lambda a, p: a.append(p),
        emit=lambda a, p: (p[0], "".join(list(a)[100:])),
    )  # fmt: skip
    grown.group(3, key=lambda p: p[0]).map(lambda w: (w[0][0], w[-1][1] + w[0][1])).sink(
        "out", key=lambda p: p[0]
    )
    return graph


def _cluster(workers: int = 1, seed: int = 1, **changes: Any) -> CoreCluster:
    cluster = CoreCluster(_graph(), workers, seed, **changes).recover()
    cluster.feed(0, "a1", "b1", "a2")
    cluster.run()
    return cluster


def _epoch(cluster: CoreCluster) -> bool:
    cluster.announce()
    cluster.run()
    return cluster.commit()


def _restored(cluster: CoreCluster) -> None:
    """All workers die; others go on from the snapshot, and must be right."""
    cluster.crash(*cluster.workers)
    cluster.add()
    cluster.add()
    cluster.recover()
    cluster.feed(0, "a8", "b9", "c9")
    cluster.end()
    cluster.run()
    cluster.check()


def test_an_epoch_is_accepted_at_the_acker_s_cut_with_positions_and_outputs() -> None:
    cluster = _cluster(2)
    assert _epoch(cluster)
    assert cluster.index is not None
    assert cluster.index.cut == cluster.minimal > START
    assert [(position.front, position.offsets) for position in cluster.index.fronts] == [(0, {"": 3})]
    assert sum(output.sequence for output in cluster.index.outputs) >= 2
    _restored(cluster)


def test_nothing_is_accepted_before_it_is_uploaded() -> None:
    cluster = _cluster()
    cluster.held.add(act.Upload)
    cluster.announce()
    cluster.run()
    cluster.step(ONE, ev.Woken())
    assert not cluster.accepted()
    cluster.held.clear()
    cluster.run()
    assert cluster.accepted()


def test_nothing_is_accepted_before_consumers_have_all_output_below_the_cut() -> None:
    cluster = _cluster()
    cluster.held.add(act.Deliver)
    cluster.feed(0, "a3")
    cluster.run()
    cluster.announce()
    cluster.run()
    assert any(isinstance(action, act.Upload) for _, action in cluster.done)
    assert not cluster.accepted()
    cluster.held.clear()
    cluster.run()
    assert cluster.accepted()


def test_releases_do_not_wait_for_an_epoch() -> None:
    cluster = _cluster(2)
    cluster.held.add(act.Upload)
    cluster.announce()
    cluster.run()
    cluster.feed(0, "a3", "b2")
    cluster.run()
    assert cluster.delivered() == cluster.expected()


def test_a_failed_upload_is_refused_and_the_next_epoch_has_the_changes() -> None:
    cluster = _cluster()
    cluster.held.add(act.Upload)
    cluster.announce()
    cluster.run()
    cluster.step(ONE, ev.UploadFailed(cluster.fence, cluster.epoch, "the store is full"))
    (refused,) = cluster.heard(msg.Refused)
    assert (refused.epoch, refused.reason) == (cluster.epoch, "the store is full")
    cluster._waiting.clear()
    cluster.held.clear()
    cluster.abort()
    cluster.run()
    assert not cluster.accepted()
    assert _epoch(cluster)
    _restored(cluster)


@pytest.mark.parametrize("seed", range(5))
def test_an_aborted_epoch_leaves_its_changes_to_the_next(seed: int) -> None:
    cluster = _cluster(3, seed)
    assert _epoch(cluster)
    cluster.feed(0, "a3", "b2")
    cluster.run()
    cluster.announce()
    cluster.run(cluster.rng.randrange(40))
    cluster.abort()
    cluster.run()
    cluster.feed(0, "b3")
    cluster.run()
    assert _epoch(cluster)
    _restored(cluster)


def test_an_answer_for_an_aborted_epoch_is_not_taken_for_the_next() -> None:
    cluster = _cluster()
    cluster.held.add(act.Upload)
    first = cluster.announce()
    cluster.run()
    cluster.abort()
    cluster.run()
    cluster.announce()
    cluster.run()
    cluster.step(ONE, ev.Uploaded(cluster.fence, first, [], []))
    cluster.step(ONE, ev.UploadFailed(cluster.fence, first, "late"))
    assert not cluster.accepted() and not cluster.heard(msg.Refused)


def test_an_aborted_epoch_is_never_accepted_and_a_refused_one_is_refused_once() -> None:
    cluster = _cluster()
    cluster.held.add(act.Upload)
    cluster.announce()
    cluster.run()
    cluster.abort()
    cluster.run()
    cluster.held.clear()
    cluster.run()
    assert not cluster.heard(msg.Accepted)
    cluster.held.add(act.Upload)
    cluster.announce()
    cluster.run()
    failed = ev.UploadFailed(cluster.fence, cluster.epoch, "full")
    cluster.step(ONE, failed, failed)
    assert len(cluster.heard(msg.Refused)) == 1


@pytest.mark.parametrize("recovery", [True, False])
def test_a_commit_s_chores_are_done_before_the_next_cut_or_recovery(recovery: bool) -> None:
    """A bucket that a chore has still to visit is one that changed."""
    cluster = _cluster(slice_size=1)
    letters = "cdefghijklmnop"
    cluster.feed(0, *(letter + "1" for letter in letters))
    cluster.run()
    cluster.announce()
    cluster.run()
    cluster.feed(0, *(letter + "2" for letter in letters))
    cluster.run()
    assert cluster.commit()
    cluster.step(ONE, *cluster._words[ONE])
    cluster._words[ONE].clear()
    if recovery:
        cluster.recover()
    else:
        cluster.announce()
        cluster.step(ONE, *cluster._words[ONE])
        cluster._words[ONE].clear()
        cluster.run()
        assert cluster.commit()
    _restored(cluster) if not recovery else _ended(cluster)


def _ended(cluster: CoreCluster) -> None:
    cluster.feed(0, *(letter + "3" for letter in "abcdefghijklmnop"))
    cluster.end()
    cluster.run()
    cluster.check()


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_of_epochs_restores_what_was_there(seed: int) -> None:
    cluster = _cluster(2, seed, slice_size=1)
    for number in range(4):
        cluster.feed(0, f"a{number}", f"b{number}", "cde"[number % 3] + str(number))
        cluster.run()
        assert _epoch(cluster)
        cluster.run()
    assert any(not row.full for rows in cluster.segments.values() for row in rows), (
        "deltas, or this shows nothing"
    )
    _restored(cluster)


def test_a_cut_that_overtakes_the_word_on_the_epoch_before_is_refused() -> None:
    """What changed would be reckoned from an older cut than the one that is committed: a chain of deltas that
    fits nothing."""
    cluster = _cluster(2)
    assert _epoch(cluster)
    cluster.run()
    cluster.feed(0, "a3", "b2")
    cluster.run()
    cluster.announce()
    cluster.run()
    late = next(name for name in cluster.workers if name != cluster.layout.acker)
    cluster.silent = {late}
    assert cluster.commit()
    cluster.feed(0, "a4", "b3")
    cluster.run()
    assert not _epoch(cluster)
    (refused,) = [
        (name, message.reason) for name, message in cluster.told if isinstance(message, msg.Refused)
    ]
    assert refused[0] == late and "has not been heard" in refused[1]
    cluster.silent = set()
    cluster.abort()
    cluster.run()
    assert _epoch(cluster)
    _restored(cluster)


def test_an_epoch_whose_end_was_never_heard_does_not_hold_up_later_ones() -> None:
    """The abort was lost with a connection: the next announcement says enough."""
    cluster = _cluster(2)
    cluster.held.add(act.Upload)
    cluster.announce()
    cluster.run()
    cluster._waiting.clear()
    cluster.held.clear()
    cluster.announce()
    cluster.run()
    if not cluster.commit():  # the cut may still have overtaken the announcement; then the next one
        assert cluster.heard(msg.Refused)
        assert _epoch(cluster)
    _restored(cluster)


def test_a_commit_that_is_no_news_changes_nothing() -> None:
    cluster = _cluster()
    assert _epoch(cluster)
    cluster.run()
    assert cluster.index is not None
    for cut in (cluster.index.cut, START):
        assert cluster.step(ONE, ev.FromCoordinator(msg.Committed(cluster.fence, Epoch(77), cut))) == []


def test_journals_are_trimmed_to_the_committed_cut() -> None:
    cluster = _cluster()
    assert _epoch(cluster)
    cluster.run()
    assert cluster.index is not None
    trims = [action for _, action in cluster.done if isinstance(action, act.TrimJournal)]
    assert trims == [act.TrimJournal(cluster.fence, FrontId(0), cluster.index.cut)]


def test_what_is_below_the_committed_cut_is_let_go() -> None:
    cluster = _cluster(slice_size=1)
    cluster.feed(0, *(f"a{i}" for i in range(12)))
    cluster.run()
    state = cluster.workers[ONE].flow.states[1]
    assert isinstance(state, KeyedState)
    assert max(len(bucket.entries) for bucket in state.buckets.values()) > 4
    assert _epoch(cluster)
    cluster.run()
    assert {len(bucket.entries) for bucket in state.buckets.values()} == {1}
    cluster.step(ONE, ev.Woken())
    assert not any(isinstance(action, act.Wake) for action in cluster.step(ONE, ev.Woken())), (
        "it asks for no more passes than it needs"
    )


def test_the_segments_to_merge_go_with_the_upload_and_are_replaced() -> None:
    cluster = _cluster()
    assert _epoch(cluster)
    cluster.run()
    assert cluster.index is not None
    (old,) = cluster.index.segments
    cluster.feed(0, "a3")
    cluster.run()
    cluster.announce([old])
    cluster.run()
    assert cluster.accepted()[ONE].replaced == [old.name]
    assert cluster.commit() and old not in cluster.index.segments
    _restored(cluster)


def test_a_slice_is_bounded_and_asks_for_the_next_pass() -> None:
    cluster = _cluster(slice_size=1)
    cluster.feed(0, *(f"{letter}1" for letter in "cdefghij"))
    cluster.run()
    before = len(cluster.done)
    assert _epoch(cluster)
    wakes = [action for _, action in cluster.done[before:] if isinstance(action, act.Wake)]
    assert len(wakes) >= 10


def test_without_epochs_nothing_is_kept_that_minimal_time_has_passed() -> None:
    """Guarantee `none`: no recovery goes back to a cut, so memory must not grow with what has been seen."""
    cluster = CoreCluster(_graph(), 2, 1, durable=False, probe=1_000_000).recover()
    held, runs = [], []
    for _ in range(4):
        cluster.feed(0, *[f"{key}{number}" for key in "abcd" for number in range(5)])
        cluster.run()
        cluster.now = Timestamp(cluster.now + 1_000_000)
        for name in list(cluster.workers):  # the probe, then a pass for each slice of the chore
            for _ in range(4):
                cluster.step(name, ev.Woken())
        cluster.run()
        states: list[Any] = [
            worker.flow.states[operation]
            for worker in cluster.workers.values()
            for operation in worker.flow.states
        ]
        held.append(
            sum(len(getattr(bucket, "entries", [])) for state in states for bucket in state.buckets.values())
        )
        fronts = [front for worker in cluster.workers.values() for front in worker._fronts._fronts.values()]
        runs.append(sum(len(front.positions._runs) for front in fronts))
    assert held == [4, 4, 4, 4], "one accumulator a key"
    assert runs == [runs[0]] * 4, "no position of a run that nobody replays"
    cluster.end()
    cluster.run()
    assert cluster.complete
