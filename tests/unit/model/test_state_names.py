"""Names of operations with state: the user's, or made of functions' names; never of what stands around."""

from collections.abc import Callable
from typing import Any

import pytest

import flamestream as fs
from flamestream.model import state_names
from flamestream.model.errors import GraphError
from flamestream.model.state_names import LEAST_NUMBER, number_of
from flamestream.model.stream import Stream


def total(before: int, number: int) -> int:
    return before + number


def rest(number: int) -> int:
    return number % 7


def seen(state: Any, item: Any, now: Any) -> tuple[Any, tuple[Any, ...]]:
    return state, ()


Made = Callable[[Stream[Any]], Stream[Any]]


def totals(stream: Stream[Any], **named: Any) -> Stream[Any]:
    return stream.reduce(key=rest, initial=int, combine=total, **named)


def graph(*made: Made) -> fs.Graph:
    built = fs.Graph("g")
    source = built.source("seconds", int, at=lambda second: second, unit="s")
    for number, make in enumerate(made):
        make(source).sink(f"sink {number}", key=repr)
    return built.validated()


def names(*made: Made) -> list[str]:
    """But for the marks', which come first."""
    return [each.name for each in graph(*made).operations if each.form != "marks"]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (totals, "total by rest"),
        (lambda s: s.reduce(key=rest, initial=int, combine=lambda a, b: a + b), "lambda by rest"),
        (lambda s: s.reduce(key=rest, initial=int, combine=total, fused=False), "group by total and rest"),
        (lambda s: s.reduce(key=rest, initial=int, combine=total, ttl="1h"), "reduce(total, ttl='1h') by rest"),
        (lambda s: s.group(3, key=rest), "group by rest"),
        (lambda s: s.window(fs.tumbling("1m"), key=rest).count(), "window(tumbling('1m')).count() by rest"),
        (lambda s: s.dedup(rest, within="1m"), "dedup(rest) by rest"),
        (lambda s: s.join(s, on=rest, within=("-1s", "1s")), "join(on=rest)"),
        (lambda s: s.join_latest(s, on=rest), "join_latest(on=rest)"),
        (lambda s: s.join_table(s, on=rest), "join_table(on=rest)"),
        (lambda s: s.process(key=rest, on_item=seen), "process(seen) by rest"),
        (lambda s: s.top(2, by=rest, key=rest), "top(2, by=rest) by rest"),
    ],
)  # fmt: skip
def test_a_name_is_made_of_functions_without_the_module_that_they_are_in(make: Made, name: str) -> None:
    assert names(make) == [name]


@pytest.mark.parametrize(
    "make",
    [
        totals,
        lambda s, **named: s.reduce(key=rest, initial=int, combine=total, fused=False, **named),
        lambda s, **named: s.reduce(key=rest, initial=int, combine=total, ttl="1h", **named),
        lambda s, **named: s.group(3, key=rest, **named),
        lambda s, **named: s.window(fs.tumbling("1m"), key=rest, **named).count(),
        lambda s, **named: s.window(fs.session("1m"), key=rest, **named).total(rest),
        lambda s, **named: s.dedup(rest, within="1m", **named),
        lambda s, **named: s.join(s, on=rest, within=("-1s", "1s"), **named),
        lambda s, **named: s.join_latest(s, on=rest, **named),
        lambda s, **named: s.join_table(s, on=rest, **named),
        lambda s, **named: s.process(key=rest, on_item=seen, **named),
        lambda s, **named: s.top(2, by=rest, key=rest, **named),
        lambda s, **named: s.distinct_count(rest, key=rest, **named),
    ],
)  # fmt: skip
def test_every_operation_with_state_is_given_a_name_and_an_earlier_one(
    make: Callable[..., Stream[Any]],
) -> None:
    built = graph(lambda s: make(s, name="mine", was="old"))
    (found,) = [each for each in built.operations if each.form != "marks"]
    assert (found.name, found.number) == ("mine", number_of("old"))


def test_a_part_has_a_name_of_its_operations() -> None:
    def ranked(stream: Stream[Any], **named: Any) -> Stream[Any]:
        return stream.window(fs.tumbling("1m"), key=rest, **named).top(2, by=fs.size)

    assert names(lambda s: ranked(s, name="most")) == ["most", "most.ranking"]
    parts = [
        each
        for each in graph(lambda s: ranked(s, name="most", was="best")).operations
        if each.form != "marks"
    ]
    assert [each.number for each in parts] == [number_of("best"), number_of("best.ranking")]


def test_what_stands_around_changes_no_name() -> None:
    alone = names(totals)
    assert set(alone) <= set(names(lambda s: s.group(2, key=rest), lambda s: totals(s.map(abs).filter(bool))))


def test_one_more_of_a_name_changes_the_names_of_all_so_that_none_is_taken_for_another() -> None:
    two, three = names(totals, totals), names(totals, totals, totals)
    assert two == ["total by rest #1 of 2", "total by rest #2 of 2"]
    assert not set(two) & set(three) and not set(names(totals)) & set(two)
    assert names(totals, lambda s: totals(s, name="mine")) == ["total by rest", "mine"]


def test_marks_are_found_by_their_sources_and_steps() -> None:
    (marks,) = [
        each for each in graph(lambda s: s.dedup(rest, within="1m")).operations if each.form == "marks"
    ]
    assert marks.name == "the least event time of seconds in steps of 1s"


@pytest.mark.parametrize("made", [("a", "a"), ("a", "b")])
def test_two_operations_of_one_number_are_refused(
    made: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if made[0] != made[1]:
        monkeypatch.setattr(state_names, "number_of", lambda name: LEAST_NUMBER)
    first, second = made
    with pytest.raises(
        GraphError, match=rf"would have one state: '{first}' of tests/unit/model/test_state_names.py:\d+"
    ):
        graph(lambda s: totals(s, name=first), lambda s: totals(s, name=second))


def test_a_name_that_another_was_is_refused_with_both_places() -> None:
    with pytest.raises(GraphError, match=r"'new' of .*, which was 'old': give one of them another name="):
        graph(lambda s: totals(s, name="old"), lambda s: totals(s, name="new", was="old"))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"name": "a b"}, "the name of an operation has letters, digits, . _ and -: 'a b' has not"),
        ({"name": 3}, "the name of an operation has letters"),
        ({"was": ""}, "was='': it is the name that the operation had"),
        ({"nam": "a"}, r"stream.reduce has no nam="),
    ],
)
def test_names_that_are_none_are_refused_at_their_place(named: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message) as raised:
        graph(lambda s: totals(s, **named))
    assert "test_state_names.py" in str(raised.value)


def test_numbers_are_above_all_places_and_have_31_bits() -> None:
    numbers = {number_of(f"name {number}") for number in range(1000)}
    assert len(numbers) == 1000 and all(LEAST_NUMBER <= number < 1 << 31 for number in numbers)
    assert number_of("visits") == 2052837764, "kept segments have it"
