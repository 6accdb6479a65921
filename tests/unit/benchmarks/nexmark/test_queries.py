"""The queries as graphs give the rows of DuckDB and of the loops, and the same bytes through kills."""

from random import Random

import msgspec
import nexmark_graphs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nexmark import loops
from nexmark.events import Event
from nexmark.generator import Configuration, Generator, generated, side_input
from nexmark.oracle import Oracle
from nexmark.queries import ARRIVING, QUERIES, UNTIMED, graph_of
from nexmark.results import Row, final

from flamestream.core.dataflow.native import FASTEST
from flamestream.model.event_time import ENDED
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import ERRORS, Run, interpret
from flamestream.simulation.graphs import SimJob
from flamestream.testing import simulate

SMALL = Configuration(
    persons=2, auctions=3, bids=9, auctions_in_flight=5, active_persons=5, out_of_order=7, rate=5
)
"""In a few dozen events everything meets."""
configurations = st.builds(
    Configuration,
    seed=st.integers(0, 2**32),
    rate=st.sampled_from([1, 7, 100, 10_000]),
    persons=st.integers(1, 4),
    auctions=st.integers(1, 6),
    bids=st.integers(1, 46),
    auctions_in_flight=st.sampled_from([1, 5, 100]),
    out_of_order=st.sampled_from([1, 5, 100]),
)


def rows(query: str, configuration: Configuration, events: list[Event], length: int = 10) -> list[Row]:
    """What the reference interpreter makes of events in runs of a length; none comes later than it may."""
    late = f"{configuration.out_of_order // configuration.rate + 1}s"
    runs: list[Run] = [
        (time_of(stamp(at), FrontId(0)), events[at : at + length]) for at in range(0, len(events), length)
    ]
    if QUERIES[query] not in UNTIMED:
        runs.append((time_of(stamp(len(events)), FrontId(0)), [ENDED]))
    results = interpret(graph_of(query, late=late), runs)
    assert not results[ERRORS]
    return final(payload for _, payload in results["results"])


def stamp(number: int) -> Timestamp:
    """When the run that begins with this event arrives: 37 ms an event."""
    return Timestamp(1 + 37_000 * number)


def arrivals(count: int, length: int) -> list[int]:
    """In ms."""
    return [stamp(number // length * length) // 1000 for number in range(count)]


@pytest.mark.parametrize("query", QUERIES)
def test_a_job_reads_the_events_of_a_query_from_lines(query: str) -> None:
    """Where it is known what events are, the fields that a graph names are there."""
    graph = getattr(nexmark_graphs, query).validated()
    lines = [msgspec.json.encode(event).decode() for event in generated(60)]
    runs: list[Run] = [
        (Time(4096), lines),
        *([(Time(8192), [ENDED])] if QUERIES[query] not in UNTIMED else []),
    ]
    results = interpret(graph, runs)
    assert not results[ERRORS]
    assert final(payload for _, payload in results["results"]) == rows(
        query, Configuration(), list(generated(60)), 60
    )


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_duckdbs_rows(query: str) -> None:
    configuration = Configuration(seed=1, rate=10, persons=5, out_of_order=20)
    events = list(generated(4000, configuration))
    with Oracle(events, arrivals(4000, 10), side_input()) as oracle:
        assert rows(query, configuration, events) == oracle.rows(query) != []


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=15, deadline=None)
@given(configuration=configurations, count=st.integers(0, 300), length=st.integers(1, 40))
def test_a_query_gives_the_loops_rows(
    query: str, configuration: Configuration, count: int, length: int
) -> None:
    events = list(generated(count, configuration))
    assert rows(query, configuration, events, length) == loops.answer(
        query, events, arrivals(count, length), side_input()
    )


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_same_through_kills(query: str) -> None:
    generator = Generator(SMALL)

    def record(_: Random, number: int) -> Event:
        return generator.event(number)

    for seed in range(6):
        job = SimJob(
            graph_of(query, "s0"), None, record, 1, one_partition=True, journalled=QUERIES[query] in ARRIVING
        )
        simulate(seed, job=job, parts=FASTEST)
