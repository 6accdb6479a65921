"""The explorer finds what is broken in a small system, and nothing in one that is not."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flamestream.papers.definitions import Reading, could_be
from flamestream.papers.explore import explore
from flamestream.papers.policies import EARLY, OURS, PAPER
from flamestream.papers.systems import CRASH, START, Operation, Policy, Situation, appended, last_two, steps

PRINTED, STRICT = Reading(6, strict=False), Reading(6, strict=True)
TIMED, JOURNALLED = OURS
OPERATIONS = pytest.mark.parametrize("operation", [appended, last_two])


@OPERATIONS
@pytest.mark.parametrize("policy", EARLY, ids=lambda policy: policy.name)
def test_whoever_releases_early_breaks_definition_6(policy: Policy, operation: Operation) -> None:
    assert PRINTED in explore(policy, operation, "abc").broken


@OPERATIONS
@pytest.mark.parametrize("policy", OURS, ids=lambda policy: policy.name)
def test_ours_breaks_nothing(policy: Policy, operation: Operation) -> None:
    assert not explore(policy, operation, "abc").broken


@pytest.mark.parametrize(
    "policy",
    [
        replace(JOURNALLED, order="any"),
        replace(JOURNALLED, recovers="anew"),
        *(replace(ours, snapshot="at any time") for ours in OURS),
        *(replace(ours, filters=False) for ours in OURS),
        *(replace(ours, recovers="skip") for ours in OURS),
    ],
    ids=str,
)
def test_ours_with_one_rule_less_is_caught(policy: Policy) -> None:
    assert STRICT in explore(policy, appended, "abc").broken


def test_the_paper_s_protocol_loses_a_result_that_only_the_strict_reading_sees() -> None:
    broken = explore(PAPER, appended, "abc").broken
    assert PRINTED not in broken
    assert " ".join(broken[STRICT]) == "+a +b [a] snap CRASH [ab] ->ab"


def test_a_history_that_is_shown_is_one_of_the_system_s_and_ends_in_the_contradiction() -> None:
    history = explore(EARLY[0], appended, "abc").broken[PRINTED]
    now = START
    for label in history:
        now = dict(steps(EARLY[0], appended, "abc", now))[label]
    left = tuple(result.value for result in now.left)
    assert left == ("a", "ba")
    assert CRASH in history


@pytest.mark.parametrize("policy", [*EARLY, PAPER, *OURS], ids=lambda policy: policy.name)
def test_histories_are_counted_as_by_walking_each(policy: Policy) -> None:
    assert explore(policy, appended, "ab").histories == sum(1 for _ in walked(policy, START))


def walked(policy: Policy, now: Situation) -> Iterator[Situation]:
    """The end of each history, one history after the other."""
    nexts = list(steps(policy, appended, "ab", now))
    if all(label == CRASH for label, _ in nexts):
        yield now
    for _, then in nexts:
        yield from walked(policy, then)


@pytest.mark.parametrize(
    ("definition", "left", "printed", "strict"),
    [
        (6, ("a", "ab", "abc"), True, True),
        (6, ("b", "ba", "bac"), True, True),
        (6, ("a", "abc"), True, False),  # one is passed over
        (6, ("ab", "a", "abc"), True, False),  # one overtakes another
        (6, ("a", "ab"), True, False),  # one stays inside for ever
        (6, ("a", "a"), False, False),
        (6, ("ab", "ba"), False, False),
        (7, ("a", "ac"), True, True),
        (7, ("a", "b"), False, False),
        (8, ("a", "aa", "aab", "aabc"), True, True),
        (8, ("a", "a"), False, False),
    ],
)
def test_a_definition_takes_what_a_system_without_failures_could_give(
    definition: int, left: tuple[str, ...], printed: bool, strict: bool
) -> None:
    found = [
        could_be(Reading(definition, each), "abc", left, quiet=True, ordered=False, operation=appended)
        for each in (False, True)
    ]
    assert found == [printed, strict]


def test_a_deterministic_system_has_one_order() -> None:
    assert not could_be(PRINTED, "ab", ("b",), quiet=False, ordered=True, operation=appended)
    assert could_be(PRINTED, "ab", ("b",), quiet=False, ordered=False, operation=appended)
