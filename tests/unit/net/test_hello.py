"""A worker of any graph can introduce itself."""

import msgspec

from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.worker.worker import Worker
from flamestream.model.graph import MAX_VERTICES, Graph
from flamestream.model.ids import SourceName, WorkerId
from flamestream.model.time import FrontId
from flamestream.net.control_link import MAX_HELLO


def rest(number: int) -> int:
    return number


def total(before: int, number: int) -> int:
    return before + number


def test_the_hello_of_the_greatest_graph_is_taken() -> None:
    graph = Graph("g")
    numbers = graph.source("numbers")
    while len(graph.vertices) + 2 <= MAX_VERTICES:
        numbers.reduce(key=rest, initial=int, combine=total).sink(f"totals {len(graph.vertices)}")
    front = FrontSettings(FrontId(0), SourceName("numbers"), timed=False)
    worker = Worker(WorkerId("w"), graph.validated(), WorkerSettings("j", 16, (front,)))
    assert len(msgspec.msgpack.encode(worker.hello("host:1"))) < MAX_HELLO
