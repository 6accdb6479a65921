"""The audit counts what is lost, doubled, foreign and reordered, and says which guarantee a history keeps."""

from typing import Any

import pytest

from flamestream.model import payload
from flamestream.model.graph import Graph
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import meta_of
from flamestream.model.payloads import encoding
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import interpret
from flamestream.testing.audit import Delivered, Result, audit
from support.classified import classify

ONE = time_of(Timestamp(1), FrontId(0))
EXPECTED = {"out": [Result(meta_of(ONE, position), payload) for position, payload in enumerate("abc")]}


def delivered(*items: tuple[int, str], slot: int = 0) -> list[Delivered]:
    """(position, payload), one bundle each."""
    return [
        Delivered(meta_of(ONE, p), Slot(slot), SequenceNumber(n), payload)
        for n, (p, payload) in enumerate(items, 1)
    ]


A, B, C = (0, "a"), (1, "b"), (2, "c")


@pytest.mark.parametrize(
    ("items", "lost", "doubled", "foreign", "reordered"),
    [
        ([A, B, C], 0, 0, 0, 0),
        ([A, C], 1, 0, 0, 0),
        ([A, B, C, C], 0, 1, 0, 0),
        ([A, B, A, B, C], 0, 2, 0, 0),
        ([B, A, C], 0, 0, 0, 1),
        ([A, (1, "x"), C], 1, 0, 1, 0),
        ([A, B, C, (7, "z")], 0, 0, 1, 0),
        ([], 3, 0, 0, 0),
    ],
)
def test_each_kind_of_difference_is_counted(
    items: list[tuple[int, str]], lost: int, doubled: int, foreign: int, reordered: int
) -> None:
    verdict = audit(EXPECTED, {"out": delivered(*items)})
    assert (verdict.lost, verdict.doubled, verdict.foreign, verdict.reordered) == (
        lost,
        doubled,
        foreign,
        reordered,
    )
    assert verdict.clean == (items == [A, B, C])


def test_order_is_compared_within_a_slot_only() -> None:
    assert audit(EXPECTED, {"out": delivered(B, C, slot=1) + delivered(A, slot=0)}).clean


def test_a_bundle_with_an_older_sequence_number_is_reordered() -> None:
    items = [
        Delivered(meta_of(ONE, p), Slot(0), SequenceNumber(s), payload)
        for (p, payload), s in zip([A, B, C], [1, 3, 2], strict=True)
    ]
    assert audit(EXPECTED, {"out": items}).reordered == 1


def test_equal_values_of_different_types_are_a_difference() -> None:
    verdict = audit(
        {"out": [Result(meta_of(ONE, 0), 1)]},
        {"out": [Delivered(meta_of(ONE, 0), Slot(0), SequenceNumber(1), True)]},
    )
    assert (verdict.lost, verdict.foreign) == (1, 1)


def test_an_encoding_that_forgets_is_on_neither_side(monkeypatch: pytest.MonkeyPatch) -> None:
    for codec in (payload, encoding):
        monkeypatch.setattr(codec, "encode", lambda value: b"")
    items = [Delivered(meta_of(ONE, 0), Slot(0), SequenceNumber(1), "a")]
    verdict = audit({"out": [Result(meta_of(ONE, 0), "b")]}, {"out": items})
    assert (verdict.lost, verdict.foreign) == (1, 1)
    assert "'b'" in verdict.first_difference or "'a'" in verdict.first_difference


def test_a_sink_without_any_output_is_lost_output() -> None:
    assert audit(EXPECTED, {}).lost == 3


def test_the_first_difference_is_told_with_its_sink_payload_and_meta() -> None:
    told = audit(EXPECTED, {"out": delivered(A, C)}).first_difference
    assert told.startswith("lost in sink 'out': 'b'")
    assert meta_of(ONE, 1).hex() in told


@pytest.mark.parametrize(
    ("items", "lost", "not_due"),
    [
        ([A, B, C], 0, 0),
        ([A, B], 0, 1),
        ([A], 0, 2),
        ([], 1, 2),
        ([B], 1, 1),
        ([A, C], 1, 0),
    ],
)
def test_what_is_due_is_lost_and_what_is_not_is_lost_before_a_later_one_only(
    items: list[tuple[int, str]], lost: int, not_due: int
) -> None:
    expected = {
        "out": [result._replace(slot=Slot(0), due=place == 0) for place, result in enumerate(EXPECTED["out"])]
    }
    verdict = audit(expected, {"out": delivered(*items)})
    assert (verdict.lost, verdict.not_due, verdict.clean) == (lost, not_due, not lost)


def test_a_silent_slot_is_lost_whatever_others_have() -> None:
    expected = {
        "out": [result._replace(slot=Slot(place % 2)) for place, result in enumerate(EXPECTED["out"])]
    }
    assert audit(expected, {"out": delivered(A, C)}).lost == 1


def test_an_item_in_another_slot_than_its_own_is_misplaced() -> None:
    expected = {"out": [result._replace(slot=Slot(1)) for result in EXPECTED["out"]]}
    verdict = audit(expected, {"out": [*delivered(A, B, slot=1), *delivered(C, slot=2)]})
    assert (verdict.misplaced, verdict.lost, verdict.clean) == (1, 0, False)
    assert verdict.first_difference.startswith("misplaced in sink 'out': 'c'")


# --- definitions 6, 7 and 8 ---------------------------------------------------------------------------------


def counting() -> Graph:
    graph = Graph("g")
    graph.source("in").reduce(
        key=lambda _: "k", initial=str, combine=lambda text, letter: text + letter
    ).sink("out", key=lambda _: "k")
    return graph


def history(*payloads: Any, metas: list[int] | None = None) -> dict[str, list[Delivered]]:
    places = metas or list(range(len(payloads)))
    numbered = enumerate(zip(places, payloads, strict=True), 1)
    return {"out": [Delivered(meta_of(ONE, p), Slot(9), SequenceNumber(n), v) for n, (p, v) in numbered]}


@pytest.mark.parametrize(
    ("given", "guarantee"),
    [
        (history("a", "ab", "abc"), "exactly-once"),
        (history("a", "ab"), "exactly-once"),
        (history("a", "ac", metas=[0, 2]), "at-most-once"),
        (history("a", "ab", "abc", "abc", metas=[0, 1, 2, 2]), "at-least-once"),
        (history("a", "ab", "abb", "abbc", metas=[0, 1, 1, 2]), "at-least-once"),
        (history("a", "ac", "acb", metas=[0, 2, 1]), "none"),
        (history("x"), "none"),
        (history("a", "abc", metas=[0, 2]), "none"),
    ],
)
def test_a_history_is_classified_by_the_strongest_definition_it_keeps(
    given: dict[str, list[Delivered]], guarantee: str
) -> None:
    slots = 1 << 12
    runs = [(ONE, ["a", "b", "c"])]
    [slot] = {_slot_of_k(slots)}
    placed = {sink: [item._replace(slot=slot) for item in items] for sink, items in given.items()}
    assert classify(counting(), runs, placed, slots) == guarantee


def _slot_of_k(slots: int) -> Slot:
    from flamestream.model.payload import encode
    from flamestream.model.slot import slot_of

    return slot_of(encode("k"), slots)


def test_a_run_of_the_reference_itself_is_exactly_once() -> None:
    graph, runs = counting(), [(ONE, ["a", "b"])]
    items = {
        "out": [
            Delivered(meta, Slot(0), SequenceNumber(1), value)
            for meta, value in interpret(graph, runs)["out"]
        ]
    }
    assert classify(graph, runs, items) == "exactly-once"
