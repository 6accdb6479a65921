"""The edge to user code: what a failing function becomes, and what debug mode finds."""

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from flamestream.core.dataflow import user_code
from flamestream.model.collections import Vector
from flamestream.model.graph import Graph
from flamestream.model.payload import ErrorValue
from flamestream.model.quoted import plain
from flamestream.model.vertex import Vertex, name_of


def _vertex(build: Callable[[Any], Any]) -> Vertex:
    graph = Graph("g")
    build(graph.source("s"))
    return graph.vertices[1]


def _mapped(function: Any, debug: bool = False) -> Callable[[Any], Any]:
    return user_code.mapped(_vertex(lambda s: s.map(function)), debug)


def _flat_mapped(function: Any, debug: bool = False) -> Callable[[Any], Any]:
    return user_code.flat_mapped(_vertex(lambda s: s.flat_map(function)), debug)


def _filtered(function: Any, debug: bool = False) -> Callable[[Any], Any]:
    return user_code.filtered(_vertex(lambda s: s.filter(function)), debug)


def _folded(
    initial: Any = int, combine: Any = lambda a, p: a + p, emit: Any = None, debug: bool = False
) -> user_code.Fold:
    return user_code.folded(
        _vertex(lambda s: s.reduce(key=lambda p: p, initial=initial, combine=combine, emit=emit)), debug
    )


def _divide(payload: Any) -> Any:
    return 1 // payload


def _halves(payload: Any) -> Any:
    yield 1
    yield 1 // payload


def _check_division(error: ErrorValue, function: Any) -> None:
    assert (error.function, error.error) == (name_of(function), "ZeroDivisionError")
    assert (error.message, error.payload) == ("integer division or modulo by zero", "0")
    line = inspect.getsourcelines(function)[1] + len(inspect.getsourcelines(function)[0]) - 1
    assert error.traceback == (f"{__name__.replace('.', '/')}.py:{line} in {function.__name__}",)


MODES = pytest.mark.parametrize("debug", [False, True])


@MODES
@pytest.mark.parametrize("wrap", [_mapped, _filtered])
def test_an_exception_becomes_an_error_item_that_names_the_function(wrap: Any, debug: bool) -> None:
    _check_division(wrap(_divide, debug)(0), _divide)


@MODES
def test_a_generator_that_raises_half_way_gives_nothing_but_the_error(debug: bool) -> None:
    _check_division(_flat_mapped(_halves, debug)(0), _halves)
    assert _flat_mapped(_halves, debug)(1) == [1, 1]


@MODES
@pytest.mark.parametrize("value", [[1], {1: 2}, object, (1, [2]), 1 << 70, "\ud800"])
def test_what_is_no_payload_is_refused_where_it_was_made(value: Any, debug: bool) -> None:
    for result in (_mapped(lambda p: value, debug)(1), _flat_mapped(lambda p: [1, value], debug)(1)):
        assert (
            isinstance(result, ErrorValue)
            and result.error == "PayloadError"
            and "<lambda>" in result.function
        )


@MODES
def test_results_may_be_any_iterable_and_truth_any_object(debug: bool) -> None:
    assert _flat_mapped(lambda p: {p: 1}, debug)(7) == [7]
    assert _flat_mapped(lambda p: {p: 1}.values(), debug)(7) == [1]
    assert _flat_mapped(lambda p: map(str, (p, p)), debug)(7) == ["7", "7"]
    assert _filtered(lambda p: [p], debug)(7) is True
    assert _filtered(lambda p: {}, debug)(7) is False


@MODES
def test_what_gives_no_results_at_all_is_an_error(debug: bool) -> None:
    result = _flat_mapped(lambda p: 5, debug)(1)
    assert isinstance(result, ErrorValue) and "not iterable" in result.message


@MODES
@pytest.mark.parametrize("fatal", [MemoryError, RecursionError])
@pytest.mark.parametrize("wrap", [_mapped, _flat_mapped, _filtered])
def test_failures_of_the_worker_are_not_the_record_s(fatal: type[Exception], wrap: Any, debug: bool) -> None:
    def fails(payload: Any) -> Any:
        raise fatal

    with pytest.raises(fatal) as caught:
        wrap(fails, debug)(1)
    (note,) = caught.value.__notes__
    assert "fails was given" in plain(note) and plain(note).endswith("1")


@MODES
@pytest.mark.parametrize("fatal", [MemoryError, RecursionError])
@pytest.mark.parametrize("part", ["initial", "combine", "emit"])
def test_failures_of_the_worker_pass_through_a_fold(fatal: type[Exception], part: str, debug: bool) -> None:
    def fails(*arguments: Any) -> Any:
        raise fatal

    with pytest.raises(fatal) as caught:
        _folded(**{part: fails}, debug=debug)(None, 1, True)
    (note,) = caught.value.__notes__
    assert "fails was given" in note


# --- folds --------------------------------------------------------------------------------------------------


def _steps(fold: user_code.Fold, *payloads: Any) -> list[Any]:
    """The results one after another."""
    accumulator, results = None, []
    for place, payload in enumerate(payloads):
        accumulator, result = fold(accumulator, payload, place == 0)
        results.append(result)
    return results


def _short(results: list[Any]) -> list[Any]:
    return [
        (result.function.split(".")[-1], result.error) if isinstance(result, ErrorValue) else result
        for result in results
    ]


def _add(accumulator: int, payload: Any) -> Any:
    return accumulator + 10 // payload


@MODES
def test_a_failed_combine_leaves_the_accumulator(debug: bool) -> None:
    assert _short(_steps(_folded(combine=_add, debug=debug), 1, 0, 1)) == [
        10,
        ("_add", "ZeroDivisionError"),
        20,
    ]


@MODES
def test_a_failed_emit_does_not_undo_the_combine(debug: bool) -> None:
    def emit(accumulator: int, payload: Any) -> Any:
        return 30 // (20 - accumulator)

    assert _short(_steps(_folded(combine=_add, emit=emit, debug=debug), 1, 1, 1)) == [
        3,
        ("emit", "ZeroDivisionError"),
        -3,
    ]


@MODES
def test_an_accumulator_that_is_no_payload_is_combine_s_fault(debug: bool) -> None:
    def combine(accumulator: int, payload: Any) -> Any:
        return [accumulator] if payload == 2 else accumulator + payload

    assert _short(_steps(_folded(combine=combine, debug=debug), 1, 2, 3)) == [
        1,
        ("combine", "PayloadError"),
        4,
    ]
    assert _short(_steps(_folded(combine=combine, emit=lambda a, p: a, debug=debug), 1, 2, 3)) == [
        1,
        ("combine", "PayloadError"),
        4,
    ]


@MODES
def test_a_result_that_is_no_payload_is_emit_s_fault(debug: bool) -> None:
    def emit(accumulator: int, payload: Any) -> Any:
        return [accumulator]

    assert _short(_steps(_folded(emit=emit, debug=debug), 1)) == [("emit", "PayloadError")]


@MODES
def test_initial_is_called_until_something_was_combined(debug: bool) -> None:
    """What it gives need not be a payload: only accumulators behind an item are kept."""
    made: list[None] = []

    def initial() -> Any:
        made.append(None)
        return [1]

    def combine(accumulator: Any, payload: Any) -> Any:
        return (*accumulator, 10 // payload)

    fold = _folded(initial, combine, debug=debug)
    accumulator, error = fold(None, 0, True)
    assert isinstance(error, ErrorValue)
    assert accumulator == user_code.NOTHING, "a snapshot can hold that, and not what initial made"
    assert fold(accumulator, 5, False) == ((1, 2), (1, 2))
    assert len(made) == 2 * (1 + debug)


@MODES
def test_a_failed_initial_is_named_and_tried_again(debug: bool) -> None:
    def initial() -> Any:
        raise KeyError("no start")

    assert _short(_steps(_folded(initial, debug=debug), 1, 2)) == [("initial", "KeyError")] * 2


# --- names --------------------------------------------------------------------------------------------------


class _Callable:
    def __call__(self, payload: Any) -> Any:
        return 1 // payload


@MODES
def test_a_name_is_the_same_in_every_process(debug: bool) -> None:
    """It is part of the output: an address in it would differ at every replay."""
    partial = _mapped(functools.partial(_divide), debug)(0)
    called = _mapped(_Callable(), debug)(0)
    assert partial.function == name_of(_divide)
    assert called.function == f"{__name__}._Callable"
    assert _mapped(functools.partial(_Callable()), debug)(0).function == called.function


# --- debug mode ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [_mapped, _flat_mapped])
def test_debug_mode_finds_two_results_for_one_input_and_names_the_function(wrap: Any) -> None:
    counter = itertools.count()

    def counted(payload: Any) -> Any:
        return (next(counter),)

    error = wrap(counted, True)(1)
    assert isinstance(error, ErrorValue) and error.error == "UserError"
    assert "counted gave two results for one input" in error.message
    assert wrap(counted, False)(1) is not error


def test_debug_mode_finds_a_filter_that_changes_its_mind_about_more_than_truth() -> None:
    flips = itertools.cycle([True, False])
    error = _filtered(lambda p: next(flips), True)(1)
    assert isinstance(error, ErrorValue) and "two results" in error.message
    growing = itertools.count(1)
    assert _filtered(lambda p: next(growing), True)(1) is True, "only its truth matters"


def test_debug_mode_finds_a_result_that_is_a_payload_only_sometimes() -> None:
    flips = itertools.cycle([1, [1]])
    error = _mapped(lambda p: next(flips), True)(1)
    assert isinstance(error, ErrorValue) and "two results" in error.message


class _Cheater:
    """Changes a persistent collection behind its back, as user code could."""

    def __call__(self, payload: Any) -> Any:
        for name in type(payload).__slots__:
            object.__setattr__(payload, name, getattr(Vector([1, 2]), name))
        return 1


def test_debug_mode_finds_a_function_that_changes_its_input_and_names_it() -> None:
    error = _mapped(_Cheater(), True)(Vector([7]))
    assert isinstance(error, ErrorValue) and error.error == "UserError"
    assert "_Cheater changes its input" in error.message


def test_debug_mode_watches_both_inputs_of_a_fold() -> None:
    def combine(accumulator: Any, payload: Any) -> Any:
        _Cheater()(accumulator)
        return 1

    _, error = _folded(combine=combine, debug=True)(Vector([7]), 1, False)
    assert isinstance(error, ErrorValue) and "combine changes its input" in error.message
