"""Scans: keys are found while they come and go, and what is given is of one time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Flow, Parts
from flamestream.core.protocol.queries import MOST_BYTES, Matching, Scan
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.worker.queries.scans import AT_ONCE, MOST_SCANS, Scans
from flamestream.model.graph import Graph
from flamestream.model.ids import WorkerId
from flamestream.model.kernel import kernel
from flamestream.model.meta import meta_of
from flamestream.model.payload import decode, encode
from flamestream.model.ready import count
from flamestream.model.time import Time

ME = WorkerId("w")
NAME = (ME, 1)
PARTS = [pytest.param(REFERENCE, id="reference")] + (
    [] if kernel is None else [pytest.param(native(kernel), id="kernel")]
)


class Nowhere:
    """Nothing leaves."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class Counted:
    """A flow that counts texts, one run an item."""

    def __init__(self, parts: Parts, key: Any = str) -> None:
        graph = Graph("g")
        graph.source("in").reduce(key=key, combine=count()).sink("out")
        self.cuts, self.time = LiveCuts(Time(0)), 0
        self.flow: Flow = parts.dataflow(
            graph,
            WorkerSettings("job", 4, ()),
            ME,
            self.cuts,
            Nowhere(),
        )
        self.flow.reset([ME] * 4, {vertex.id: parts.barrier() for vertex in graph.sinks}, {})
        (self.vertex,) = self.flow.states

    def take(self, *items: Any) -> None:
        for item in items:
            self.time += 1
            self.flow.run([(meta_of(Time(self.time), 0), Time(self.time), 0, item, False)])

    def scan(self, limit: int = 100, after: bytes = b"", text: str | None = None) -> Scan:
        return Scan(self.vertex, Matching(b"", text), after, limit)

    def given(self, scans: Scans, upto: int) -> tuple[dict[str, Any], bytes]:
        """The page as of a time."""
        seen = scans.answer(NAME, Time(upto), Time(upto))
        assert seen is not None
        states = [decode(state) for state in seen.states if state is not None]
        return dict(zip(map(decode, seen.keys), states, strict=True)), seen.upto


@pytest.fixture(params=PARTS)
def counted(request: pytest.FixtureRequest) -> Counted:
    return Counted(request.param)


def through(scans: Scans) -> None:
    while scans.walking:
        scans.go_on()


def test_a_page_has_the_least_keys_that_are_meant_and_says_where_it_goes_on(counted: Counted) -> None:
    counted.take("bob", "ann", "anna", "bob", "zoe")
    scans = Scans(counted.flow.states)
    scans.begin(NAME, counted.scan(limit=2))
    through(scans)
    assert counted.given(scans, 9) == ({"ann": 1, "bob": 2}, encode("bob"))
    scans.begin(NAME, counted.scan(limit=2, after=encode("bob")))
    through(scans)
    assert counted.given(scans, 9) == ({"zoe": 1, "anna": 1}, b""), (
        "shorter texts come first in their encoding"
    )
    scans.begin(NAME, counted.scan(text="an"))
    through(scans)
    assert counted.given(scans, 9) == ({"ann": 1, "anna": 1}, b"")


def test_what_comes_during_a_walk_is_there_and_what_is_above_the_time_is_not(counted: Counted) -> None:
    counted.take(*(f"key {number}" for number in range(2 * AT_ONCE)))
    scans = Scans(counted.flow.states)
    scans.begin(NAME, counted.scan(limit=10 * AT_ONCE))
    scans.go_on()
    counted.take("key 0", "new")
    at = counted.time + 1
    through(scans)
    counted.take("newer", "too new")
    found, upto = counted.given(scans, at + 1)
    assert (len(found), found["new"], found["newer"], found["key 0"], "too new" in found, upto) == (
        2 * AT_ONCE + 2,
        1,
        1,
        2,
        False,
        b"",
    )


def test_many_keys_are_put_in_order_a_few_at_a_time(counted: Counted) -> None:
    counted.take(*(f"key {number}" for number in range(3 * AT_ONCE)))
    scans = Scans(counted.flow.states)
    scans.begin(NAME, counted.scan())
    assert [scans.go_on() for _ in range(3)] == [None, None, NAME]
    scans.end(NAME)
    scans.begin(NAME, counted.scan(after=encode("key 7")))
    assert scans.go_on() == NAME, "and once only: the next page costs what it gives"


def test_scans_are_bounded_and_who_leaves_makes_room(counted: Counted) -> None:
    scans = Scans(counted.flow.states)
    assert [scans.begin((ME, number), counted.scan()) for number in range(MOST_SCANS + 1)] == [
        *(True,) * MOST_SCANS,
        False,
    ]
    scans.end((ME, 0))
    assert scans.begin(NAME, counted.scan())


def test_a_page_ends_where_it_would_be_too_much(counted: Counted) -> None:
    long = "x" * (MOST_BYTES // 2)
    counted.take(long, f"{long}y", f"{long}z")
    scans = Scans(counted.flow.states)
    scans.begin(NAME, counted.scan())
    through(scans)
    found, upto = counted.given(scans, 9)
    assert (list(found), upto) == ([long], encode(long))


KEYS = st.one_of(
    st.text("an", max_size=3), st.sampled_from(["an" * 20, "an" * 200]), st.integers(-1, 300), st.none(),
    st.tuples(st.text("an", max_size=2)), st.binary(max_size=2),
)  # fmt: skip


@pytest.mark.parametrize("parts", PARTS)
@given(
    items=st.lists(st.one_of(KEYS, st.just(...)), max_size=40),
    limit=st.integers(1, 5),
    text=st.one_of(st.none(), st.text("an", max_size=2)),
)
def test_pages_behind_each_other_have_what_a_sorted_list_of_the_keys_has(
    parts: Parts, items: list[Any], limit: int, text: str | None
) -> None:
    """Keys come at any time between steps; `...`: a step of the ordering."""
    counted = Counted(parts, key=same)
    states = counted.flow.states[counted.vertex]
    for item in items:
        if item is ...:
            states.order(3)
        else:
            counted.take(item)
    taken = {encode(item) for item in items if item is not ...}
    meant = sorted(key for key in taken if text is None or is_text(key, text))
    scans, found, after = Scans(counted.flow.states), list[bytes](), b""
    while True:
        scans.begin(NAME, counted.scan(limit, after, text))
        through(scans)
        seen = scans.answer(NAME, Time(99), Time(99))
        assert seen is not None and len(seen.keys) <= limit
        found += seen.keys
        if not (after := seen.upto):
            break
    assert found == meant


def is_text(key: bytes, text: str) -> bool:
    decoded = decode(key)
    return isinstance(decoded, str) and decoded.startswith(text)


def same(item: Any) -> Any:
    return item
