"""Counts of instructions, read and compared."""

import json

from figures import instructions


def test_the_total_is_what_cachegrind_says_last() -> None:
    assert instructions.total("==12== \n==12== I refs:        1,234,567\n") == 1_234_567


def test_a_path_that_got_dearer_is_named_with_its_ratio() -> None:
    assert instructions.dearer({"a": 1000, "b": 1000}, {"a": 1100, "b": 1010}) == {"a": 1.1}


def test_a_path_that_was_never_counted_cannot_be_dearer() -> None:
    assert instructions.dearer({}, {"new": 10}) == {}


def test_the_kept_counts_are_of_the_paths_that_there_are() -> None:
    assert set(json.loads(instructions.KEPT.read_text())["instructions_a_record"]) == set(instructions.PATHS)
