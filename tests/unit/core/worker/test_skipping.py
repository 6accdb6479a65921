"""At most once: held output without a journal, and a recovery that skips what had entered above its cut."""

from typing import Any

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.ids import Offset, SinkName
from flamestream.model.time import START, FrontId, Time
from support.core.core_cluster import CoreCluster, P

F = FrontId(0)
KINDS = [
    pytest.param({}, id="journalled elsewhere"),
    pytest.param({"replayable": False}, id="not replayable"),
    pytest.param({"timed": [0]}, id="timed"),
]


def began(seed: int = 1, **changes: Any) -> CoreCluster:
    graph = Graph("g")
    graph.source("s0").sink("out")
    return CoreCluster(graph, 2, seed, two_phase=True, skips=True, **changes).recover()


def enter(cluster: CoreCluster, records: str) -> None:
    cluster.feed(F, *records)
    cluster.run()


def committed(cluster: CoreCluster) -> FrontPosition:
    """Of the front, in the snapshot of one more epoch."""
    cluster.save()
    assert cluster.index is not None
    return cluster.index.fronts[0]


def reached(cluster: CoreCluster) -> list[FrontPosition]:
    return [position for worker in cluster.workers.values() for position in worker._fronts.reached]


def failed(cluster: CoreCluster, heard: list[FrontPosition]) -> None:
    """A worker is gone, and another begins."""
    cluster.crash(next(iter(cluster.workers)))
    cluster.add()
    cluster.reached = heard
    cluster.recover()
    cluster.run()


def delivered(cluster: CoreCluster) -> str:
    items = [item for slot in cluster.sinks[SinkName("out")].taken.values() for item in slot]
    return "".join(str(codec.decode(payload)) for _, payload in sorted(items))


@pytest.mark.parametrize("changes", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_what_had_entered_above_the_cut_is_skipped_and_counted(seed: int, changes: dict[str, Any]) -> None:
    cluster = began(seed, **changes)
    enter(cluster, "abc")
    committed(cluster)
    enter(cluster, "de")
    failed(cluster, reached(cluster))
    enter(cluster, "fg")
    cluster.end()
    cluster.run()
    position = committed(cluster)
    assert delivered(cluster) == "abcfg"
    assert (position.records, position.skipped) == (7, 2)


@pytest.mark.parametrize("changes", KINDS)
def test_what_nobody_has_heard_of_is_read_again_and_nothing_is_doubled(changes: dict[str, Any]) -> None:
    cluster = began(**changes)
    enter(cluster, "ab")
    old = reached(cluster)
    enter(cluster, "c")
    committed(cluster)
    enter(cluster, "de")
    failed(cluster, old)
    assert committed(cluster).skipped == 0
    assert delivered(cluster) == "abcde"


def test_a_second_failure_before_a_commit_counts_no_record_twice() -> None:
    cluster = began()
    enter(cluster, "abc")
    failed(cluster, reached(cluster))
    enter(cluster, "d")
    failed(cluster, reached(cluster))
    enter(cluster, "e")
    assert (committed(cluster).skipped, delivered(cluster)) == (4, "e")
    enter(cluster, "f")
    failed(cluster, reached(cluster))
    assert committed(cluster).skipped == 5
    assert [worker._fronts.skipped for worker in cluster.workers.values() if worker._fronts.skipped] == [
        {"s0": 5}
    ]


def test_nothing_leaves_before_its_commit_and_what_the_snapshot_holds_leaves_once() -> None:
    cluster = began()
    enter(cluster, "abc")
    assert delivered(cluster) == ""
    cluster.announce()
    cluster.run()
    assert cluster.commit(say=False)
    enter(cluster, "d")
    failed(cluster, reached(cluster))
    assert delivered(cluster) == "abc"


def test_no_journal_is_asked_for_and_no_run_read_again() -> None:
    cluster = began()
    enter(cluster, "abc")
    committed(cluster)
    enter(cluster, "d")
    failed(cluster, reached(cluster))
    asked = {type(action) for _, action in cluster.done}
    assert not asked & {act.SealJournal, act.Append, act.TrimJournal, act.ReadRun}


def test_who_gives_records_that_nobody_can_read_again_keeps_them_until_a_snapshot_has_them() -> None:
    cluster = began(replayable=False)
    enter(cluster, "abc")
    position = committed(cluster)
    enter(cluster, "de")
    failed(cluster, reached(cluster))
    saved = [action for _, action in cluster.done if isinstance(action, act.Saved)]
    follow = [action for _, action in cluster.done if isinstance(action, act.Follow)][-1]
    assert [each.offsets for each in saved] == [position.offsets] == [{P: Offset(3)}]
    assert (follow.offsets, follow.saved) == ({P: Offset(5)}, {P: Offset(3)})


def test_a_job_that_has_delivered_above_its_cut_is_refused() -> None:
    """It began under another guarantee: its records would enter once more."""
    worker = next(iter(began().workers.values()))
    with pytest.raises(UserError, match="the job began under another guarantee"):
        worker._fronts.seal(START, [Time(7)])
