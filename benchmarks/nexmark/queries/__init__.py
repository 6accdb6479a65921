"""The queries of Nexmark as graphs: each takes the stream of all events and gives the stream of its results.

Does not: run a graph, or say where events come from.
"""

from collections.abc import Callable
from typing import Final

import flamestream as fs
from nexmark.events import Event
from nexmark.queries.pairs import q3, q20
from nexmark.queries.single import q0, q1, q2, q10, q13, q14, q21, q22
from nexmark.queries.statistics import q15, q16, q17
from nexmark.queries.tops import q18, q19
from nexmark.queries.windows import q5, q7, q8, q11, q12
from nexmark.queries.winning import q4, q6, q9
from nexmark.results import Newest, Row, key_of

Query = Callable[[fs.Stream[Event]], fs.Stream[Row] | fs.Stream[Newest]]
TIMED: Final[tuple[Query, ...]] = (q5, q7, q8, q11)
"""Those that ask for event time."""
ARRIVING: Final[tuple[Query, ...]] = (q12,)
"""Those that ask for when events arrive: their source must be one whose order is journalled."""
UNTIMED: Final[tuple[Query, ...]] = (
    q0,
    q1,
    q2,
    q3,
    q4,
    q6,
    q9,
    q10,
    q13,
    q14,
    q15,
    q16,
    q17,
    q18,
    q19,
    q20,
    q21,
    q22,
)
MEASURED: Final[dict[str, Query]] = {query.__name__: query for query in (*UNTIMED, *TIMED)}
"""Those that can read a list of lines."""
QUERIES: Final[dict[str, Query]] = {**MEASURED, **{query.__name__: query for query in ARRIVING}}


def graph_of(
    name: str, source: str = "events", late: str = "4s", decode: Callable[[str], Event] | None = None
) -> fs.Graph:
    """The graph of a query, from the source of all events to the sink `results`. `decode` makes an event of a
    record that is none."""
    query = QUERIES[name]
    # Sessions end at any moment, and are told at the end of their step; other windows end with one.
    graph = fs.Graph(f"nexmark-{name}", step="20ms" if query is q11 else "1s")
    if query in TIMED:
        events = graph.source(source, decode, at="dateTime", unit="ms", late=late)
    else:
        events = graph.source(source, decode, clock="arrival" if query in ARRIVING else None)
    query(events).sink("results", key=key_of)
    return graph
