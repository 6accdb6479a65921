"""Fronts to look at: those of a cluster with one journalled source, and one alone, without its worker."""

from collections.abc import Sequence
from typing import Any

from flamestream.core.protocol import events as ev
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.worker.fronts import Fronts
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Fence, Offset, SourceName
from flamestream.model.time import END, START, FrontId, Time
from support.core.core_cluster import CoreCluster, P

F = FrontId(0)
FENCE = Fence(*NO_FENCE)


def one_source_cluster(workers: int = 2, seed: int = 1, **changes: Any) -> CoreCluster:
    """In its first attempt. What has come under each first letter is one text."""
    graph = Graph("g")
    graph.source("s0").reduce(
        key=lambda p: p[0], initial=str, combine=lambda a, p: a + p[1:], emit=lambda a, p: (p[0], a)
    ).sink("out", key=lambda p: p[0])
    return CoreCluster(graph, workers, seed, **changes).recover()


def actions_of(cluster: CoreCluster, kind: type) -> list[Any]:
    """Of this kind, all that its workers have done."""
    return [action for _, action in cluster.done if isinstance(action, kind)]


def fronts_alone(
    timed: bool = False,
    entries: list[ev.Entry] | None = None,
    bound: Time = START,
    until: Time = END,
    **changes: Any,
) -> tuple[Fronts, list[ev.Entry]]:
    """One front in a new attempt, sealed and started, and what has entered so far.

    `bound`: nothing new may enter at or below it, `until`: nothing above it; `changes` are of the
    worker's settings. A "mark" counts as one.
    """
    entered: list[ev.Entry] = []

    def enter(_: SourceName, entry: ev.Entry, payloads: Sequence[object]) -> int:
        entered.append(entry)
        return payloads.count("mark")

    settings = WorkerSettings("j", 4, (FrontSettings(F, SourceName("s"), timed),), **changes)
    fronts = Fronts(FENCE, settings, [F], {}, enter)
    fronts.seal(START, ())
    if not timed:
        fronts.sealing.sealed(F, entries or [])
    fronts.start(bound, until=until)
    return fronts, entered


def arrived(first: int, *records: object) -> ev.RecordsArrived:
    """Ten bytes of records, from this offset."""
    return ev.RecordsArrived(FENCE, F, P, Offset(first), records, 10)
