"""Spark's three real-time jobs as graphs of an application: `python benchmarks rtm` measures them."""

import flamestream as fs


@fs.event
class Record:
    id: str
    user: str
    at: int


@fs.event
class Id:
    id: str


@fs.event
class Counted:
    user: str
    count: int


@fs.event
class InWindow:
    user: str
    start: int
    count: int


def records(graph: fs.Graph, late: str) -> fs.Stream[Record]:
    return graph.source("records", Record, at="at", unit="ms", late=late)


dedup = fs.Graph("dedup")
records(dedup, "1m").dedup("id", within="1m").map(fs.record(Id, "id")).sink("results", key="id")

window = fs.Graph("window")
_counts = records(window, "10s").window(fs.tumbling("1m"), key="user").count(results="each")
_counts.map(fs.record(InWindow, user=fs.field("key"), start=fs.field("start"), count=fs.field("value"))).sink(
    "results", key="user"
)

count = fs.Graph("count")
count.source("records", Record).reduce(
    key="user", combine=fs.count(), emit=fs.record(Counted, "user", count=fs.state)
).sink("results", key="user")
