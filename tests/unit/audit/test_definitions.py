"""Definitions 5 to 8 of small histories: each is broken by one and found, with the shortest reason."""

import pytest

from flamestream.audit.definitions.judge import (
    AT_LEAST,
    AT_LEAST_STRICT,
    AT_MOST,
    AT_MOST_STRICT,
    EXACTLY,
    EXACTLY_STRICT,
    FORMS,
    judged,
)
from support.seen import Joined, seen

ALL = set(FORMS)
PRINTED = {EXACTLY, AT_MOST, AT_LEAST}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("+a ->a +b ->ab .", ALL),
        ("+a +b ->a ->ab .", ALL),
        ("+a/p +b/q ->b ->ba .", ALL),
        ("+a +c +b ->a ->acb .", ALL),
        ("+a +b ->ab .", PRINTED),  # a result is lost
        ("+a +b ->ab ->a .", PRINTED),  # order
        ("+a +b ->a .", PRINTED | {AT_MOST_STRICT}),  # the last one is lost, or left out
        ("+a +b ->b .", {AT_MOST, AT_MOST_STRICT}),  # an item is left out
        ("+a ->a ->aa .", {AT_LEAST, AT_LEAST_STRICT}),  # an item is taken again
        ("+a +b ->a ->ab ->aba ->abab .", {AT_LEAST, AT_LEAST_STRICT}),  # a stretch is
        ("+a +b ->a ->aa ->aab .", {AT_LEAST, AT_LEAST_STRICT}),  # before the next is taken
        ("+a ->a ->a .", set()),  # a result comes again: nothing computes it so
        ("+a ->a ! +b ->b .", set()),  # what was delivered is forgotten
        ("->a +a .", set()),  # before its cause
        ("+a ->x .", set()),
    ],
)
def test_a_history_keeps_these_definitions_and_no_others(text: str, holds: set[object]) -> None:
    verdicts = judged(seen(text), Joined())
    assert {form for form, each in verdicts.items() if each.outcome == "holds"} == holds
    assert {each.outcome for each in verdicts.values()} <= {"holds", "broken"}


def test_definition_6_as_printed_does_not_see_lost_output_and_the_strict_one_does() -> None:
    lost = judged(seen("+a +b ! ->ab ."), Joined())
    assert (lost[EXACTLY].outcome, lost[EXACTLY_STRICT].outcome) == ("holds", "broken")
    nothing = judged(seen("+a +b ."), Joined())
    assert (nothing[EXACTLY].outcome, nothing[EXACTLY_STRICT].outcome) == ("holds", "broken")


def test_what_is_under_way_is_not_lost() -> None:
    assert judged(seen("+a ->a +b"), Joined())[EXACTLY_STRICT].outcome == "holds"
    assert judged(seen("+a ->a +b ."), Joined())[EXACTLY_STRICT].outcome == "broken"


def test_where_any_order_is_allowed_6_and_7_as_printed_are_the_same() -> None:
    """What was left out may be thought to come last, and its results to be under way for ever."""
    verdicts = judged(seen("+a/p +b/q ->b ."), Joined())
    assert (verdicts[EXACTLY].outcome, verdicts[AT_MOST].outcome) == ("holds", "holds")
    assert (verdicts[EXACTLY_STRICT].outcome, verdicts[AT_MOST_STRICT].outcome) == ("broken", "holds")


def test_as_many_stretches_are_taken_again_as_there_were_crashes() -> None:
    twice = "+a ->a ->aa ->aaa ."
    assert judged(seen(twice), Joined())[AT_LEAST_STRICT].outcome == "broken"
    assert judged(seen(twice.replace("->aa ", "! ->aa ! ")), Joined())[AT_LEAST_STRICT].outcome == "holds"


@pytest.mark.parametrize(
    ("text", "strict", "place", "reason"),
    [
        ("+a +b ->ab .", True, 3, "ab came where a was due, which never came"),
        ("+a +b ->ab ->a .", True, 3, "ab came before a, which was due first"),
        ("+a/p +b/q ->b ->x .", True, 4, "x came where ba was due, which never came"),  # not what comes first
        ("+a ->a +b .", True, None, "ab was due, and never came"),
        ("+a ->a ->a .", False, 3, "a came a second time, and no run gives it so often"),
        ("->a +a .", False, 1, "a follows from what had not entered yet"),
        ("+a ->x .", False, 2, "x: no run over the 1 item that had entered gives it"),
        ("->x .", False, 1, "x: nothing leads to it"),
        (
            "+a ->a ! +b ->b .",
            False,
            5,
            "b: no run over the 2 items that had entered gives it beside the 1 before it "
            "(the first of its key behind the crash at 3)",
        ),
    ],
)
def test_the_first_inconsistent_output_is_named_with_its_reason(
    text: str, strict: bool, place: int | None, reason: str
) -> None:
    verdict = judged(seen(text), Joined())[EXACTLY_STRICT if strict else EXACTLY]
    assert (verdict.outcome, verdict.place, verdict.reason) == ("broken", place, reason)


def test_definition_5_counts_the_outputs_before_the_first_that_is_not_consistent() -> None:
    assert judged(seen("+a ->a +b ->ab ->x ->y ."), Joined())[EXACTLY].consistent == 2
    assert judged(seen("+a ->a +b ->ab ."), Joined())[EXACTLY].consistent == 2
