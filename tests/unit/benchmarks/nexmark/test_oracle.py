"""DuckDB and plain loops, written apart, answer every query alike; so either is right, or both are wrong in
the same way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nexmark import loops
from nexmark.events import Event
from nexmark.generator import Configuration, Generator, side_input
from nexmark.oracle import Oracle
from nexmark.results import Row
from nexmark.sql import SQL

configurations = st.builds(
    Configuration,
    seed=st.integers(0, 2**32),
    rate=st.sampled_from([1, 2, 7, 100, 10_000]),  # 1: bids lie exactly a session's gap apart
    persons=st.integers(1, 4),
    auctions=st.integers(1, 6),
    bids=st.integers(1, 46),
    auctions_in_flight=st.sampled_from([1, 5, 100]),
    out_of_order=st.sampled_from([1, 5, 100]),
)
SAMPLE = Configuration(seed=1, rate=10, persons=5)


def recorded(configuration: Configuration, count: int) -> tuple[list[Event], list[int]]:
    generator = Generator(configuration)
    return [generator.event(number) for number in range(count)], [
        generator.arrival(number) for number in range(count)
    ]


def answers(events: list[Event], arrivals: list[int], side: dict[int, str]) -> dict[str, list[Row]]:
    with Oracle(events, arrivals, side) as oracle:
        return {query: oracle.rows(query) for query in SQL}


@settings(max_examples=25, deadline=None)
@given(configurations, st.integers(0, 400))
def test_duckdb_and_the_loops_agree_on_every_query(configuration: Configuration, count: int) -> None:
    events, arrivals = recorded(configuration, count)
    side = {number: str(number) for number in range(0, 10_000, 3)}  # with gaps: not every bid finds its text
    for query, rows in answers(events, arrivals, side).items():
        assert rows == loops.answer(query, events, arrivals, side), query


def test_there_are_queries_0_to_22() -> None:
    assert list(SQL) == [f"q{number}" for number in range(23)]


@pytest.fixture(scope="module")
def sample() -> dict[str, list[Row]]:
    return answers(*recorded(SAMPLE, 4000), side_input())


@pytest.mark.parametrize("query", SQL)
def test_every_query_notices_that_events_are_missing(query: str, sample: dict[str, list[Row]]) -> None:
    events, arrivals = recorded(SAMPLE, 2000)
    assert loops.answer(query, events, arrivals, side_input()) != sample[query] != []
