"""A worker's side of a recovery: nothing above the cut survives, nothing below it is lost, and each word
comes when it is true."""

from typing import Any

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.model.collections import Vector
from flamestream.model.graph import Graph
from flamestream.model.ids import WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START, FrontId
from support.core.core_cluster import CoreCluster


def _graph() -> Graph:
    graph = Graph("g")
    grown = graph.source("s0").reduce(
        key=lambda p: p[0],
        initial=Vector,
        combine=lambda a, p: a.append(p[1]),
        emit=lambda a, p: (p[0], "".join(a)),
    )
    grown.sink("out", key=lambda p: p[0])
    grown.sink("copy", key=lambda p: p[0])
    return graph


RECORDS = [letter + str(number) for number in range(3) for letter in "abcdefgh"]


def _cluster(workers: int = 2, seed: int = 1, **changes: Any) -> CoreCluster:
    """An epoch is committed, and there is more above its cut."""
    cluster = CoreCluster(_graph(), workers, seed, **changes).recover()
    cluster.feed(0, *RECORDS)
    cluster.run()
    cluster.save()
    cluster.feed(0, *RECORDS)
    cluster.run()
    return cluster


def _finish(cluster: CoreCluster) -> None:
    cluster.feed(0, *RECORDS)
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.complete


def _loads(cluster: CoreCluster, name: WorkerId | None = None) -> list[act.Load]:
    return [action for who, action in cluster.done if isinstance(action, act.Load) and who in (name or who,)]


def test_the_word_opened_waits_for_every_sink() -> None:
    cluster = _cluster()
    cluster.held.add(act.OpenSink)
    cluster.begin()
    name = next(iter(cluster.workers))
    assert not cluster.heard(msg.Opened)
    mine = [action for who, action in cluster._waiting if who == name and isinstance(action, act.OpenSink)]
    slots = cluster.layout.slots_of(name)
    assert [(action.sink, tuple(action.slots)) for action in mine] == [("out", slots), ("copy", slots)]
    cluster.step(name, ev.SinkOpened(cluster.fence, mine[0].sink, {}))
    assert not cluster.heard(msg.Opened)
    cluster.step(name, ev.SinkOpened(cluster.fence, mine[1].sink, {}))
    assert len(cluster.heard(msg.Opened)) == 1


def test_opened_names_the_greatest_t_last_of_all_sinks_and_slots() -> None:
    cluster = _cluster()
    cluster.begin()
    greatest = max(bundle.t_last for sink in cluster.sinks.values() for bundle in sink.last.values())
    assert max(opened.t_last for opened in cluster.heard(msg.Opened)) == greatest
    known = {
        (output.sink, output.slot): output.sequence
        for opened in cluster.heard(msg.Opened)
        for output in opened.outputs
    }
    assert known == {
        (name, slot): bundle.sequence
        for name, sink in cluster.sinks.items()
        for slot, bundle in sink.last.items()
    }


def test_the_word_sealed_waits_for_journals_and_state() -> None:
    cluster = _cluster(1)
    cluster.crash(*cluster.workers)
    cluster.add()
    cluster.held |= {act.Load, act.SealJournal}
    cluster.begin()
    cluster.seal()
    assert not cluster.heard(msg.Sealed)
    cluster.held = {act.Load}
    cluster.run()
    assert not cluster.heard(msg.Sealed)
    cluster.held = set()
    cluster.run()
    (sealed,) = cluster.heard(msg.Sealed)
    assert sealed.last == cluster.journals[FrontId(0)][-1].time
    cluster.replay()
    _finish(cluster)


def test_journals_are_not_sealed_before_the_coordinator_says_so() -> None:
    """Before all sinks are open, an older attempt may still release what it journals."""
    cluster = _cluster()
    cluster.begin()
    seals = [
        action
        for _, action in cluster.done
        if isinstance(action, act.SealJournal) and action.fence == cluster.fence
    ]
    assert seals == []
    cluster.seal()
    seals = [
        action
        for _, action in cluster.done
        if isinstance(action, act.SealJournal) and action.fence == cluster.fence
    ]
    assert cluster.index is not None
    assert [seal.cut for seal in seals] == [cluster.index.cut]


def test_a_replay_that_comes_before_this_worker_was_ready_starts_nothing() -> None:
    cluster = _cluster()
    cluster.begin()
    before = len(cluster.done)
    cluster.say(msg.Replay(cluster.fence, START))
    cluster.run()
    assert not [action for _, action in cluster.done[before:] if isinstance(action, act.Follow | act.ReadRun)]
    assert not any(worker.hello("x:1").ready for worker in cluster.workers.values())
    cluster.seal()
    cluster.replay()
    _finish(cluster)


@pytest.mark.parametrize("seed", range(6))
def test_a_fresh_worker_loads_its_slots_and_goes_on(seed: int) -> None:
    cluster = _cluster(2, seed)
    cluster.crash(*cluster.workers)
    names = [cluster.add() for _ in range(3)]
    cluster.recover()
    for name in names:
        (load,) = _loads(cluster, name)
        assert tuple(load.slots) == cluster.layout.slots_of(name)
    _finish(cluster)


def test_only_segments_with_a_wanted_slot_are_loaded() -> None:
    cluster = _cluster(2)
    assert cluster.index is not None
    gone = next(iter(cluster.workers))
    cluster.crash(gone)
    cluster.recover()
    (load,) = _loads(cluster)
    assert [segment.name for segment in load.segments] == [
        segment.name for segment in cluster.index.segments if gone in segment.name
    ]


def test_a_survivor_keeps_the_slots_that_stay_with_it() -> None:
    cluster = _cluster(2)
    layout = cluster.layout
    cluster.lay_out = lambda: layout  # type: ignore[method-assign]
    cluster.recover()
    assert not _loads(cluster), "nothing moved, so nothing is loaded"
    _finish(cluster)


def test_a_survivor_loads_a_slot_that_comes_back_to_it() -> None:
    """It once had that slot, but others have changed it since."""
    cluster = _cluster(2)
    first, (a, b) = cluster.layout, cluster.layout.workers
    all_to_a = Layout(first.version, (a,) * 16, first.fronts, first.acker)
    for layout in (all_to_a, first):
        cluster.lay_out = lambda layout=layout: layout  # type: ignore[method-assign,misc]
        cluster.recover()
        cluster.feed(0, *RECORDS)
        cluster.run()
        cluster.save()
    assert [tuple(load.slots) for load in _loads(cluster, b)] == [first.slots_of(b)]
    _finish(cluster)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_above_the_cut_survives(seed: int) -> None:
    """Then the state of a survivor is that of a worker that loads it."""
    cluster = _cluster(2, seed)
    layout = cluster.layout
    cluster.lay_out = lambda: layout  # type: ignore[method-assign]
    cluster.begin()
    cluster.seal()
    survivors = _state(cluster)
    cluster.crash(*cluster.workers)
    cluster._born = 0
    cluster.add()
    cluster.add()
    cluster.begin()
    cluster.seal()
    assert survivors == _state(cluster) != {}
    cluster.replay()
    _finish(cluster)


def _state(cluster: CoreCluster) -> dict[bytes, Any]:
    cut = cluster.workers[WorkerId("w0")].cuts.committed
    states: list[Any] = [
        state for worker in cluster.workers.values() for state in worker.flow.states.values()
    ]
    return {key: list(state.state_at(key, cut)) for state in states for key in state.buckets}


def test_a_survivor_that_did_not_hear_of_a_commit_goes_back_to_its_cut() -> None:
    cluster = _cluster(2)
    cluster.announce()
    cluster.run()
    assert cluster.commit(say=False)
    cluster.feed(0, *RECORDS)
    cluster.run()
    layout = cluster.layout
    cluster.lay_out = lambda: layout  # type: ignore[method-assign]
    cluster.recover()
    assert not _loads(cluster), "the announced cut is as good as the committed one"
    _finish(cluster)


def test_a_survivor_that_missed_a_whole_epoch_loads_everything() -> None:
    cluster = _cluster(2)
    zombie = cluster.layout.workers[0]
    kept = cluster.workers.pop(zombie), cluster._answers.pop(zombie), cluster._words.pop(zombie)
    cluster.recover()
    cluster.feed(0, *RECORDS)
    cluster.run()
    cluster.save()
    cluster.workers[zombie], cluster._answers[zombie], cluster._words[zombie] = kept
    before = len(cluster.done)
    cluster.recover()
    (load,) = [
        action for who, action in cluster.done[before:] if isinstance(action, act.Load) and who == zombie
    ]
    assert tuple(load.slots) == cluster.layout.slots_of(zombie)
    _finish(cluster)


def test_an_interrupted_recovery_loads_again_what_had_not_come() -> None:
    cluster = _cluster(1)
    cluster.crash(*cluster.workers)
    name = cluster.add()
    cluster.held.add(act.Load)
    cluster.begin()
    cluster._waiting.clear()
    cluster.held.clear()
    cluster.recover()
    assert len(_loads(cluster, name)) == 2
    _finish(cluster)


def test_without_a_snapshot_everything_starts_empty() -> None:
    cluster = CoreCluster(_graph(), 2, 5).recover()
    cluster.feed(0, *RECORDS)
    cluster.run()
    cluster.recover()
    assert not _loads(cluster)
    _finish(cluster)


def test_the_word_sealed_waits_for_the_journals_alone_too() -> None:
    cluster = _cluster(1)
    cluster.held.add(act.SealJournal)
    cluster.begin()
    cluster.seal()
    assert not cluster.heard(msg.Sealed)
    cluster.held.clear()
    cluster.run()
    assert cluster.heard(msg.Sealed)


def test_a_seal_before_the_sinks_are_open_is_no_seal() -> None:
    cluster = _cluster(1)
    cluster.held |= {act.OpenSink, act.SealJournal}
    cluster.begin()
    cluster.say(msg.Seal(cluster.fence))
    cluster.run()
    cluster.held.clear()
    cluster.run()
    assert cluster.heard(msg.Opened) and not cluster.heard(msg.Sealed)


def test_a_slot_that_moved_away_leaves_nothing_behind() -> None:
    cluster = _cluster(1)
    cluster.add()
    cluster.recover()
    cluster.run()
    for name, worker in cluster.workers.items():
        states: list[Any] = list(worker.flow.states.values())
        slots = {bucket.slot for state in states for bucket in state.buckets.values()}
        assert slots <= set(cluster.layout.slots_of(name))
