"""A cluster over letters: each comes out with all that came of it so far, and some have come already."""

from typing import Any

from flamestream.core.protocol import actions as act
from flamestream.model.graph import Graph
from flamestream.model.ids import (
    SinkName,
)
from flamestream.model.time import FrontId
from support.core.core_cluster import CoreCluster

OUT = SinkName("out")
F = FrontId(0)


def letters() -> Graph:
    graph = Graph("g")
    reduced = graph.source("s0").reduce(
        key=lambda p: p, initial=str, combine=lambda a, p: a + p, emit=lambda a, p: (p, a)
    )
    reduced.sink("out", key=lambda p: p[0])
    return graph


def letters_cluster(workers: int = 2, seed: int = 1, **changes: Any) -> CoreCluster:
    """In its first attempt, with eight letters through."""
    cluster = CoreCluster(letters(), workers, seed, **changes).recover()
    cluster.feed(0, *"abcabcab")
    cluster.run()
    return cluster


def messages_of(actions: list[act.Action], kind: type) -> list[Any]:
    """Of this kind, what these actions tell the coordinator."""
    return [
        action.message
        for action in actions
        if isinstance(action, act.ToldCoordinator) and isinstance(action.message, kind)
    ]
