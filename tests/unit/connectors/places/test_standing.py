"""What stands at a place against the reference: each difference is found, and named by its kind."""

import pytest

from flamestream.connectors.kit.standing import (
    EXAMPLES,
    Findings,
    Line,
    Span,
    Version,
    in_any_order,
    in_order,
    replaced,
)
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta


def lines(*texts: str, due: int = 1000) -> list[Line]:
    """`a0`: line a of slot 0. The first `due` of them are."""
    return [Line(Slot(int(text[-1])), text, text, number < due) for number, text in enumerate(texts)]


def found(*texts: str) -> list[tuple[str, str]]:
    return [(text, f"entry {text}") for text in texts]


@pytest.mark.parametrize(
    ("wanted", "there", "counts"),
    [
        (lines("a0", "b1", "c0"), ["a0", "b1", "c0"], {}),
        (lines("a0", "b1", "c0"), ["b1", "a0", "c0"], {}),
        (lines("a0", "a0", "b0"), ["a0", "a0", "b0"], {}),
        (lines("a0", "b0", "a0"), ["b0", "a0"], {"lost": 1}),
        (lines("a0", "b0", "c0"), ["a0", "c0", "b0"], {"reordered": 1}),
        (lines("a0", "b0"), ["a0", "b0", "a0"], {"doubled": 1}),
        (lines("a0", "b0"), ["a0", "x0", "b0"], {"foreign": 1}),
        (lines("a0", "b0"), ["a0", "x0"], {"foreign": 1, "lost": 1}),
        (lines("a0", "b0"), [], {"lost": 2}),
        (lines("a0", "b0", "c0", due=1), ["a0"], {}),
        (lines("a0", "b0", "c0", due=1), ["a0", "b0"], {}),
        (lines("a0", "b0", "c0", due=1), ["a0", "c0"], {"lost": 1}),
        (lines("a0", "b1", due=0), ["b1"], {}),
    ],
)
def test_lines_in_the_order_of_their_slots(
    wanted: list[Line], there: list[str], counts: dict[str, int]
) -> None:
    findings = in_order(Findings("a stream"), wanted, found(*there))
    assert (findings.counts, findings.stands) == (counts, len(there))
    assert findings.clean == (not counts)
    assert {example.partition(":")[0] for example in findings.examples} == set(counts)


def test_of_a_stream_that_is_trimmed_only_what_is_before_the_first_may_be_gone() -> None:
    wanted = lines("a0", "b0", "c0", "d1")
    assert in_order(Findings("a stream"), wanted, found("b0", "c0"), trimmed=True).clean
    assert in_order(Findings("a stream"), wanted, found("a0", "c0", "d1"), trimmed=True).counts == {"lost": 1}


@pytest.mark.parametrize(
    ("there", "counts"),
    [
        (["c0", "a0", "a0"], {}),
        (["c0", "a0"], {"lost": 1}),
        (["c0", "a0", "a0", "a0"], {"doubled": 1}),
        (["c0", "a0", "a0", "x0"], {"foreign": 1}),
    ],
)
def test_lines_in_any_order(there: list[str], counts: dict[str, int]) -> None:
    assert in_any_order(Findings("a table"), lines("a0", "a0", "c0"), found(*there)).counts == counts


def versions(*texts: str, due: int = 1000) -> list[Version]:
    return [Version(text, text, number < due, "row") for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("wanted", "there", "counts"),
    [
        (versions("1", "2"), "2", {}),
        (versions("1", "2"), "1", {"changed": 1}),
        (versions("1", "2"), "9", {"changed": 1}),
        (versions("1", "2"), None, {"lost": 1}),
        (versions("1", "2", "3", due=2), "2", {}),
        (versions("1", "2", "3", due=2), "3", {}),
        (versions("1", "2", "3", due=2), "1", {"changed": 1}),
        (versions("1", due=0), None, {}),
        (versions("1", due=0), "1", {}),
        (versions("1", due=0), "2", {"changed": 1}),
        ([], "1", {"foreign": 1}),
    ],
)
def test_values_that_are_replaced(wanted: list[Version], there: str | None, counts: dict[str, int]) -> None:
    now = [] if there is None else [("key", Version(there, there, True, "row"))]
    findings = replaced(Findings("a table"), {"key": wanted} if wanted else {}, now)
    assert findings.counts == counts


def test_an_older_value_is_said_to_be_one() -> None:
    now = [("key", Version("1", "n=1", True, "row k"))]
    assert replaced(Findings("a table"), {"key": versions("1", "2")}, now).examples == [
        "changed: row k has n=1, an older value; the reference has 2"
    ]


def test_everything_is_counted_and_the_first_are_told() -> None:
    findings = in_order(Findings("a stream"), lines(*(f"a{n % 10}" for n in range(100))), [])
    assert (findings.counts, len(findings.examples)) == ({"lost": 100}, EXAMPLES)


def test_at_least_once_allows_repeats_and_nothing_else() -> None:
    findings = in_order(Findings("a stream"), lines("a0"), found("a0", "a0"))
    assert (findings.keeps("exactly-once"), findings.keeps("at-least-once")) == (False, True)
    findings.add("lost", "x")
    assert not findings.keeps("at-least-once")


LATER = Span(Meta(b"\5"))
EDITED = Span(until=Meta(b"\5"))


@pytest.mark.parametrize("span", [LATER, EDITED])
def test_where_results_of_others_stand_what_is_not_the_references_may_be_theirs(span: Span) -> None:
    findings = in_order(Findings("a stream", span=span), lines("a0", "b0"), found("x0", "a0", "a0", "b0"))
    assert (findings.clean, len(findings.unknown)) == (True, 1)
    assert in_order(Findings("a stream", span=span), lines("a0", "b0"), found("x0", "a0")).counts == {
        "lost": 1
    }


@pytest.mark.parametrize(
    ("span", "due", "there", "counts"),
    [
        (LATER, 1, "1", {}),
        (LATER, 1, "9", {"changed": 1}),
        (LATER, 0, "9", {}),
        (LATER, 1, None, {"lost": 1}),
        (EDITED, 1, "9", {}),
        (EDITED, 1, None, {"lost": 1}),
    ],
)
def test_a_value_may_be_of_a_result_that_nobody_knows(
    span: Span, due: int, there: str | None, counts: dict[str, int]
) -> None:
    now = [] if there is None else [("key", Version(there, there, True, "row"))]
    assert replaced(Findings("a table", span=span), {"key": versions("1", due=due)}, now).counts == counts


def test_a_span_has_its_begin_and_not_its_end() -> None:
    assert [Meta(bytes([n])) in Span(Meta(b"\2"), Meta(b"\4")) for n in range(1, 6)] == [
        False,
        True,
        True,
        False,
        False,
    ]
