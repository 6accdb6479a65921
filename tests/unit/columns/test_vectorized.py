"""A vectorised function means what it makes of one payload, and the kernel reads what it made of several."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import flamestream as fs
from flamestream.model.errors import GraphError, UserError
from flamestream.model.vertex import Kind, name_of
from flamestream.simulation.jobs.ready import Measured, measured_together


@fs.vectorized(takes=str, makes=str)
def parts(texts: Any) -> Any:
    return pc.split_pattern(texts, " ")


@fs.vectorized(takes=int, makes=int)
def among(numbers: Any) -> Any:
    """Wrong: it looks at its neighbours."""
    return pc.subtract(numbers, pc.min(numbers))


@fs.vectorized(takes=int, makes=bool)
def even(numbers: Any) -> Any:
    return pc.equal(pc.bit_wise_and(numbers, 1), 0)


def test_one_function_in_three_forms() -> None:
    graph = fs.Graph("forms")
    numbers = graph.source("numbers")
    numbers.filter(even).map(fs.vectorized(takes=int, makes=int)(pc.negate)).sink("out")
    chosen, negated = graph.vertices[1].function, graph.vertices[2].function
    assert chosen is not None and negated is not None
    assert [chosen(n) for n in (2, 3)] == [True, False]
    assert [negated(n) for n in (2, 3)] == [-2, -3]
    assert parts.for_kind(Kind.FLAT_MAP)("a b") == ["a", "b"]


def test_by_hand_it_is_the_function_over_arrays() -> None:
    assert even(pa.array([1, 2])).to_pylist() == [False, True]


def test_messages_call_it_by_its_own_name() -> None:
    assert name_of(parts.for_kind(Kind.FLAT_MAP)) == f"{__name__}.parts"


def test_a_filter_answers_with_true_or_false() -> None:
    with pytest.raises(GraphError, match="makes=bool"):
        fs.Graph("filters").source("s").filter(parts)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ([1], "is a list"),
        (pa.array([1]), "is 1 results"),
        (pa.array(["a", "b"]), "is string, which is not int64"),
    ],
)
def test_what_it_may_not_return_is_said(made: Any, told: str) -> None:
    function = fs.vectorized(takes=int, makes=int)(lambda numbers: made).for_kind(Kind.MAP)
    with pytest.raises((ValueError, TypeError), match=told):
        function.together([1, 2])


def test_a_result_that_depends_on_its_batch_is_found_in_debug_mode() -> None:
    function = among.for_kind(Kind.MAP)
    with pytest.raises(UserError, match="made other results of several items than of each alone"):
        function.checked_batch([5, 6])
    assert parts.for_kind(Kind.FLAT_MAP).checked_batch(["a b", "c"])


def test_several_payloads_at_once_give_what_each_alone_gives() -> None:
    function = measured_together.for_kind(Kind.FLAT_MAP)
    pairs = [("k", f"{number}") for number in range(40)]
    alone = []
    for pair in pairs:
        try:
            alone.append(function(pair))
        except ValueError:
            continue
    good = [pair for pair in pairs if _measures(pair)]
    assert function.together(good) == alone
    assert any(isinstance(one, Measured) and one.note is not None for made in alone for one in made), (
        "nulls and others"
    )


def _measures(pair: tuple[str, str]) -> bool:
    try:
        measured_together.for_kind(Kind.FLAT_MAP)(pair)
    except ValueError:
        return False
    return True
