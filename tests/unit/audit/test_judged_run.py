"""Definitions of a run of ours: every damage of its output is found by the definitions that it breaks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.audit.definitions.table import Row, in_words
from flamestream.audit.job_audit import witnessed
from flamestream.audit.judged_run import judged_run, once_repeats_are_removed
from flamestream.model.meta import meta_of
from support.runs.changes import Change, again, exchanged, foreign, nothing, replaced, without
from support.runs.damage import OUTPUT, RIGHT, Damage
from support.runs.past_run import Given, PastRun, finished, going_on, own_modules, run_time

BOUND = 300


@pytest.fixture(autouse=True)
def application() -> Iterator[None]:
    with own_modules():
        yield


def rows(past: PastRun, folder: Path) -> dict[int, Row]:
    checked = past.leave(folder, {"files": {"path": str(folder / "out"), "fsync": False}})
    found = judged_run(checked, witnessed(checked, past.last_commit()), BOUND)
    assert [row.definition for row in found] == [5, 6, 7, 8, 9, 10]
    return {row.definition: row for row in found}


@pytest.mark.parametrize("damage", RIGHT, ids=lambda damage: damage.name)
def test_what_is_right_keeps_all(damage: Damage, tmp_path: Path) -> None:
    found = rows(damage.past(), tmp_path)
    assert [(row.printed, row.strict) for row in found.values()][1:4] == [
        ("holds", "holds"),
        ("follows", "follows"),
        ("follows", "follows"),
    ]
    assert (found[5].printed, found[10].printed) == ("holds", "holds")


@pytest.mark.parametrize(
    ("change", "six", "seven", "outputs"),
    [
        (without(21), ("holds", "broken"), ("follows", "broken"), "for 39 of 39 outputs"),
        # the last of its word: as if it had never entered
        (without(39), ("holds", "broken"), ("follows", "holds"), "for 39 of 39 outputs"),
        (again(0, 9), ("broken", "broken"), ("broken", "broken"), "for 40 of 41 outputs"),
        (exchanged(0, 10), ("holds", "broken"), ("follows", "broken"), "for 40 of 40 outputs"),
        (replaced(0, payload=("ash", 9)), ("broken", "broken"), ("broken", "broken"), "for 39 of 40 outputs"),
    ],
    ids=["dropped", "last dropped", "doubled", "swapped", "another value"],
)
def test_a_damage_breaks_the_definitions_that_it_has_to(
    change: Change, six: tuple[str, str], seven: tuple[str, str], outputs: str, tmp_path: Path
) -> None:
    past = finished()
    change(past)
    found = rows(past, tmp_path)
    assert (found[6].printed, found[6].strict) == six
    assert (found[7].printed, found[7].strict) == seven
    assert found[5].reason.startswith(outputs)
    assert (found[5].printed == "holds") == (six[0] == "holds")


@pytest.mark.parametrize("damage", OUTPUT, ids=lambda damage: damage.name)
def test_no_damage_keeps_definition_6_strictly(damage: Damage, tmp_path: Path) -> None:
    found = rows(damage.past(), tmp_path)
    assert found[6].strict == "broken"
    seen = {"doubled", "foreign"} & damage.says.keys()
    assert found[6].printed == ("broken" if seen else "holds"), (
        "printed, it sees what is too much and no more"
    )
    assert all(f"{damage.says[kind]} " in found[6].reason for kind in seen)


def test_an_item_that_was_taken_again_is_definition_8(tmp_path: Path) -> None:
    """The last word is counted once more than it came."""
    past = finished()
    last = past.given[-1][-1]
    word, count = last.payload
    foreign(Given(meta_of(run_time(99), 0), last.slot, (word, count + 1)))(past)
    found = rows(past, tmp_path)
    assert (found[6].printed, found[8].printed, found[8].strict) == ("broken", "holds", "holds")


def test_what_is_lost_before_the_end_is_not_decided(tmp_path: Path) -> None:
    past = going_on()
    without(0)(past)
    found = rows(past, tmp_path)
    assert (found[7].strict, found[8].strict) == ("undecided", "undecided")
    assert "which ones are under way is not known" in found[8].reason


def test_a_count_by_order_is_commutative_as_far_as_it_was_tried(tmp_path: Path) -> None:
    past = finished()
    nothing(past)
    found = rows(past, tmp_path)
    assert (found[9].printed, found[9].reason) == (
        "undecided",
        "none of 30 swaps of neighbours changed anything",
    )
    assert found[10].reason == (
        "1 attempt delivered what the interpreter gives; 40 records interpreted twice gave the same"
    )


def test_repeats_of_equal_results_are_what_at_least_once_allows(tmp_path: Path) -> None:
    past = finished()
    again(0, 9)(past)
    checked = past.leave(tmp_path, {"files": {"path": str(tmp_path / "out"), "fsync": False}})
    report = witnessed(checked, past.last_commit()).report
    assert once_repeats_are_removed(report) == (
        "Once repeats of equal results are removed, definition 6 holds strictly."
    )


def test_the_table_in_words(tmp_path: Path) -> None:
    past = finished()
    without(39)(past)
    said = in_words(rows(past, tmp_path).values()).splitlines()
    assert said[0] == "definition 5   consistent output   holds for 39 of 39 outputs"
    assert said[1].startswith(
        "definition 6   exactly-once        holds; strict: broken: 1 lost; first: lost in"
    )
    assert said[2] == "definition 7   at-most-once        follows from 6; strict: holds"
