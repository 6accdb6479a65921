"""What comes too late is counted whether or not a sink takes it, on any number of workers."""

from collections import Counter

import pytest

from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.model.graph import Graph
from flamestream.model.windows.shapes import tumbling
from flamestream.reference import interpret
from support.core.core_cluster import CoreCluster

CLICKS = [("ann", 0), ("bob", 70), ("ann", 5), ("ann", 65), ("cid", 8), ("bob", 200), ("ann", 90)]
VIEWS = [("bob", 64), ("ann", 250), ("bob", 66)]


def _graph(*, sink: bool) -> Graph:
    """Two windows over two sources, one of them of one source alone."""
    graph = Graph("late")
    clicks, views = (graph.source(name, at=lambda item: item[1], unit="s") for name in ("clicks", "views"))
    both = clicks.merge(views).window(tumbling("1m"), key=lambda item: item[0]).count()
    each = clicks.window(tumbling("10s"), key=lambda item: item[0]).count()
    for name, counts in (("both", both), ("each", each)):
        counts.sink(name)
        if sink:
            counts.late.sink(f"late-{name}")
    return graph


def _counted(cluster: CoreCluster) -> Counter[str]:
    told = [worker._counters.report(0, 0) for worker in cluster.workers.values()]
    return sum((Counter(each["late"]) + Counter(each["late_since"]) for each in told), Counter[str]())


@pytest.mark.parametrize("parts", [REFERENCE, FASTEST], ids=["reference", "fastest"])
@pytest.mark.parametrize("seed", range(8))
def test_each_item_counts_once_for_each_window_that_it_is_too_late_for(parts: Parts, seed: int) -> None:
    cluster = CoreCluster(_graph(sink=False), 3, seed, parts=parts).recover()
    cluster.feed(0, *CLICKS)
    cluster.feed(1, *VIEWS)
    cluster.end()
    cluster.run()
    expected = interpret(_graph(sink=True).validated(), cluster.runs())
    late = [item for sink in ("late-both", "late-each") for _, item in expected[sink]]
    assert late
    assert _counted(cluster) == Counter("clicks" if item in CLICKS else "views" for item in late)


@pytest.mark.parametrize("parts", [REFERENCE, FASTEST], ids=["reference", "fastest"])
@pytest.mark.parametrize("seed", range(8))
def test_a_recovery_that_moves_slots_counts_none_twice_and_forgets_none(parts: Parts, seed: int) -> None:
    cluster = CoreCluster(_graph(sink=False), 3, seed, parts=parts).recover()
    cluster.feed(0, *CLICKS[:5])
    cluster.feed(1, *VIEWS)
    cluster.run()
    cluster.announce()
    cluster.run()
    assert cluster.commit(say=seed % 2 == 0)
    cluster.feed(0, *CLICKS[5:])
    cluster.end()
    cluster.run(100 * seed)
    cluster.recover()
    cluster.run()
    expected = interpret(_graph(sink=True).validated(), cluster.runs())
    late = [item for sink in ("late-both", "late-each") for _, item in expected[sink]]
    assert _counted(cluster) == Counter("clicks" if item in CLICKS else "views" for item in late)
