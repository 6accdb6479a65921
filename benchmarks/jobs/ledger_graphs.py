"""The job of peers/flink/Ledger.java as graphs, for the verdict on what Flink made of it: records "id user cents"
from one topic, or from two. Paid out is only what an account has."""

from typing import Any

import flamestream as fs

Entry = tuple[int, str, int]


def entry(line: str) -> Entry:
    number, user, cents = line.split(" ")
    return int(number), user, int(cents)


def user_of(read: Entry) -> str:
    return read[1]


def booked(cents: int, read: Entry) -> int:
    return cents + read[2] if cents + read[2] >= 0 else cents


def result(cents: int, read: Entry) -> fs.Map[str, Any]:
    return fs.Map({"id": read[0], "user": read[1], "cents": cents})


def ledger(name: str, *topics: str) -> fs.Graph:
    graph = fs.Graph(name)
    first, *others = (graph.source(topic).map(entry) for topic in topics)
    (first.merge(*others) if others else first).reduce(
        key=user_of, initial=int, combine=booked, emit=result
    ).sink("results", key=lambda row: row["user"])
    return graph


one_topic = ledger("one-topic", "records")
two_topics = ledger("two-topics", "paid-in", "paid-out")
