"""A worker that has said Sealed and waits for Replay, while peers that have heard theirs run: it is whole,
and stamps nothing."""

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import messages as msg
from flamestream.model.graph import Graph
from flamestream.model.ids import LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import END, START, FrontId
from support.core.core_cluster import CoreCluster

FRONTED, BARE = WorkerId("w0"), WorkerId("w1")
"""The one has the front and the acker, the other only slots: nobody waits for its promises."""


def _graph() -> Graph:
    graph = Graph("g")
    graph.source("s0").sink("out", key=lambda p: p)
    return graph


class _Cluster(CoreCluster):
    """Slots in turn; the front and the acker are the first worker's."""

    def lay_out(self) -> Layout:
        names = sorted(self.workers)
        owners = tuple(names[slot % len(names)] for slot in range(self.settings.slots))
        return Layout(LayoutVersion(self.fence.layout + 1), owners, (names[0],), names[0])


RECORDS = [f"r{number}" for number in range(20)]


def _late(seed: int, *, held: bool) -> _Cluster:
    """An epoch is committed, its output is with the consumers or (`held`) on its way for as long as the test
    wants; then a second attempt whose Replay reaches one worker only."""
    cluster = _Cluster(_graph(), 2, seed, two_phase=True)
    cluster.recover()
    cluster.feed(0, *RECORDS)
    cluster.run()
    cluster.announce()
    cluster.run()
    if held:
        cluster.held.add(act.Deliver)
    assert cluster.commit()
    cluster.run()
    cluster._waiting.clear()
    cluster.begin()
    cluster.seal()
    cluster.silent.add(BARE)
    cluster.replay()
    cluster.feed(0, *RECORDS)
    cluster.run()
    assert cluster.workers[BARE].cuts.minimal > cluster.workers[BARE].cuts.committed, (
        "it has heard of new times"
    )
    return cluster


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_it_numbers_bundles_behind_what_consumers_have_and_the_snapshot_holds(seed: int, held: bool) -> None:
    cluster = _late(seed, held=held)
    cluster.silent.clear()
    cluster.held.clear()
    cluster.end()
    cluster.run()
    for _ in range(2):
        cluster.save()
    cluster.check()


@pytest.mark.parametrize("seed", range(4))
def test_it_accepts_no_epoch_before_the_output_of_the_last_one_has_left(seed: int) -> None:
    cluster = _late(seed, held=True)
    cluster.announce()
    cluster.run()
    assert cluster.heard(msg.CutTaken) and not cluster.accepted()
    cluster.held.clear()
    cluster.run()
    assert set(cluster.accepted()) == {FRONTED, BARE}, "it is ready, and so it has a part in the epoch"


def test_what_the_snapshot_holds_leaves_at_once() -> None:
    """It is committed: consumers need not wait for the last worker to be told."""
    cluster = _late(1, held=True)
    delivering = {name for name, action in cluster._waiting if isinstance(action, act.Deliver)}
    assert delivering == {FRONTED, BARE}


def test_it_stamps_and_tells_nothing_before_its_replay() -> None:
    cluster = _Cluster(_graph(), 2, 1).recover()
    cluster.begin()
    cluster.seal()
    cluster.silent.add(FRONTED)
    cluster.feed(0, *RECORDS)
    cluster.replay()
    cluster.run()
    cluster.step(FRONTED)
    assert cluster.workers[FRONTED].cuts.minimal == START
    followed = [
        action.fence for name, action in cluster.done if name == FRONTED and isinstance(action, act.Follow)
    ]
    assert cluster.fence not in followed
    cluster.silent.clear()
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.minimal == END


def test_a_question_before_its_replay_is_answered_behind_it() -> None:
    graph = Graph("g")
    graph.source("s0").merge(graph.source("s1")).sink("out", key=lambda p: p)
    cluster = CoreCluster(graph, 2, 3)
    layout = Layout(LayoutVersion(1), (FRONTED, BARE) * 8, (FRONTED, BARE), FRONTED)
    cluster.lay_out = lambda: layout  # type: ignore[method-assign]
    cluster.begin()
    cluster.seal()
    cluster.silent.add(BARE)
    cluster.feed(0, *RECORDS)
    cluster.replay()
    cluster.run()
    assert not cluster.heard(msg.Failed) and cluster.minimal == START
    cluster.silent.clear()
    cluster.run()
    assert cluster.sources[FrontId(1)].follower == BARE
    assert cluster.delivered() == cluster.expected()
