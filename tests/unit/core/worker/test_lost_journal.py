"""A journal that has lost its tail: a folder that was not synced, a disk that was restored. A replay would be of
other input than the results that consumers have."""

import pytest

from flamestream.core.protocol import messages as msg
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import FrontId
from support.core.core_cluster import CoreCluster

SEEDS = range(60)


def _graph() -> Graph:
    graph = Graph("g")
    words = graph.source("s0").merge(graph.source("s1"))
    words.reduce(
        key=lambda p: p[0], initial=str, combine=lambda a, p: a + p[1:], emit=lambda a, p: (p[0], a)
    ).sink("out", key=lambda p: p[0])
    return graph


def _crashed(seed: int) -> CoreCluster:
    """A cluster whose workers have all died in the middle, and others have opened the sinks."""
    cluster = CoreCluster(_graph(), 2, seed).recover()
    for number in range(30):
        cluster.feed(number % 2, f"{'abc'[number % 3]}{number};")
        cluster.run(cluster.rng.randint(0, 25))
        if number == 12:
            cluster.announce()
            cluster.run()
            assert cluster.commit()
    cluster.crash(*list(cluster.workers))
    for _ in range(2):
        cluster.add()
    cluster.begin()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_a_journal_that_lacks_what_was_delivered_is_corrupt_and_no_other_is(seed: int) -> None:
    cluster = _crashed(seed)
    assert cluster.index is not None
    ends = [bundle.t_last for sink in cluster.sinks.values() for bundle in sink.last.values()]
    delivered = {time_of_meta(Meta(end)) for end in ends} - {0}
    front = FrontId(cluster.rng.randrange(2))
    entries = cluster.journals[front]
    kept = cluster.rng.randint(0, len(entries))
    lost = {entry.time for entry in entries[kept:] if entry.time >= cluster.index.cut} & delivered
    del entries[kept:]
    cluster.seal()
    failures = cluster.heard(msg.Failed)
    if lost:
        (failure,) = failures
        assert failure.category == "corrupt"
        assert f"the journal of source 's{front}' has lost entries" in failure.message
        assert f"the first at time {min(lost)}" in failure.message
    else:
        assert not failures and len(cluster.heard(msg.Sealed)) == 2
