"""Mutants of a mutation run: each is a module that still parses, and says what it changes."""

import ast
import json
from pathlib import Path

import pytest

from flamestream import core
from mutation.mutants import mutants
from mutation.run import END, MARK, PAGE, SCORE, told

SOURCE = '''"""A module."""

def f(self, x: int | None, y) -> bool:
    """A docstring."""
    assert x < 1, "not looked at"
    if x is None or not y:
        self.flag = False
        self.told(x + 1)
        return max(x, y) <= 3
    raise ValueError(x + 2)
'''


def changes(source: str) -> set[str]:
    return {mutant.change for mutant in mutants("m.py", source)}


def test_conditions_boundaries_numbers_and_effects_are_broken_one_at_a_time() -> None:
    assert changes(SOURCE) == {
        "x is None or not y -> x is None and (not y)", "x is None -> x is not None", "not y -> its opposite",
        "without self.flag = False", "False -> True", "without self.told(x + 1)", "x + 1 -> x - 1", "1 -> 2",
        "max(x, y) <= 3 -> max(x, y) < 3", "max( -> min(", "3 -> 4",
    }  # fmt: skip


def test_annotations_docstrings_assertions_and_messages_are_left_alone() -> None:
    lines = {mutant.line for mutant in mutants("m.py", SOURCE)}
    assert lines.isdisjoint({1, 3, 4, 5, 10})


@pytest.mark.parametrize("module", ["coordinator/recovery.py", "worker/acker.py", "worker/fronts.py"])
def test_a_mutant_of_the_core_is_another_module_that_parses(module: str) -> None:
    source = (Path(core.__file__).parent / module).read_text()
    whole = ast.unparse(ast.parse(source))
    found = list(mutants(module, source))
    assert len(found) > 10
    for mutant in found[:40]:
        assert mutant.source() != whole
        compile(mutant.source(), module, "exec")


def test_the_page_has_the_score_that_is_kept() -> None:
    shown = PAGE.read_text().partition(MARK)[2].partition(END)[0]
    assert shown == told(json.loads(SCORE.read_text()))


def test_what_a_class_is_declared_with_is_left_alone() -> None:
    assert changes("class A(B, frozen=True):\n    x: int = 1\n") == {"1 -> 2"}
