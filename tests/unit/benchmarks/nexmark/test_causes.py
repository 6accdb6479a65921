"""A row is timed from the event at which the reference interpreter gives it, or not at all."""

import pytest
from nexmark.causes import cause_of, once
from nexmark.generator import Configuration, generated
from nexmark.queries import QUERIES, graph_of
from nexmark.results import Newest, Row

from flamestream.model.time import Time
from flamestream.reference import interpret

CONFIGURATION = Configuration(seed=1, rate=50, persons=3, auctions=6, bids=30, auctions_in_flight=20)
EVENTS = list(generated(3000, CONFIGURATION))
STEP_MS = 1000
"""In which marks move: a session ends at any time, and is told at the next step."""
WITH_EVENTS = [query for query in QUERIES if query != "q12"]


def given(query: str) -> list[tuple[int, Row]]:
    """(number of the event, row), in order."""
    results = interpret(
        graph_of(query), [(Time((1 + number) * 4096), [event]) for number, event in enumerate(EVENTS)]
    )["results"]
    return [
        (int.from_bytes(meta[:8]) // 4096 - 1, each.row if isinstance(each, Newest) else each)
        for meta, each in results
    ]


@pytest.mark.parametrize("query", WITH_EVENTS)
def test_the_event_of_a_row_is_the_one_that_leads_to_it(query: str) -> None:
    cause = cause_of(query, EVENTS)
    found = [(number, cause(row)) for number, row in given(query)]
    said = [(number, cause) for number, cause in found if cause is not None]
    later = STEP_MS * CONFIGURATION.rate // 1000 if query == "q11" else 0
    assert len(said) > len(found) * (0.05 if query == "q19" else 0.5)
    assert all(cause <= number <= cause + later for number, cause in said)


def test_a_key_of_several_events_has_none() -> None:
    assert once([("a", 1), ("b", 2), ("a", 3), ("b", 2)]) == {"b": 2}
