"""Versions of the index's code tell themselves apart, so an audit of ten upgrades sees a result of another one."""

import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import workload
from harness.versions import Ticks, code_of, unmarked

from flamestream.model.time import START, FrontId, next_time
from flamestream.reference import interpret

RUNS = [(next_time(START, FrontId(0)), ["1\tone two one", "2\ttwo three"])]


@pytest.fixture
def third() -> Iterator[ModuleType]:
    """The application in its third version, beside the one that others have loaded."""
    made = ModuleType("workload_of_three")
    sys.modules[made.__name__] = made
    exec(compile(inspect.getsource(workload) + code_of(3), "workload_of_three.py", "exec"), vars(made))  # noqa: S102 - our own lines
    yield made
    del sys.modules[made.__name__]


def fields(change: Any) -> tuple[Any, ...]:
    return change.word, change.document, change.positions, change.documents


def test_each_result_says_its_version_and_is_else_that_of_every_version(third: ModuleType) -> None:
    made = [unmarked(value) for _, value in interpret(third.graph, RUNS)["index"]]
    assert [version for version, _ in made] == [3] * 4
    plain = [value for _, value in interpret(workload.graph, RUNS)["index"]]
    assert [fields(value) for _, value in made] == [fields(value) for value in plain]
    assert [unmarked(value) for value in plain] == [(0, value) for value in plain]


def test_a_version_has_what_is_at_its_cut_and_above() -> None:
    due = Ticks("40:1,90:3")
    assert [due.version_at(time) for time in (0, 39, 40, 89, 90, 1000)] == [0, 0, 1, 1, 3, 3]
    assert Ticks().version_at(5) == 0
