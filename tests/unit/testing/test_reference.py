"""The reference interpreter gives what a graph means, item by item."""

from typing import Any

import pytest

from flamestream.model.collections import Vector
from flamestream.model.failure import located
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, child, meta_of
from flamestream.model.payload import ErrorValue
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import ERRORS, Results, interpret

ONE = time_of(Timestamp(1), FrontId(0))
TWO = time_of(Timestamp(2), FrontId(0))


def same(payload: Any) -> Any:
    return payload


def run(graph: Graph, *records: Any) -> Results:
    return interpret(graph, [(ONE, records)])


def values(results: Results, sink: str = "out") -> list[Any]:
    return [payload for _, payload in results[sink]]


def in_order(results: Results) -> bool:
    return all(
        [meta for meta, _ in items] == sorted({meta for meta, _ in items}) for items in results.values()
    )


def test_map_filter_and_merge_keep_the_meta_of_their_item() -> None:
    graph = Graph("g")
    graph.source("in").map(lambda n: n * 10).filter(lambda n: n > 10).merge().sink("out")
    assert run(graph, 1, 2)["out"] == [(meta_of(ONE, 1), 20)]


def test_children_of_a_flat_map_follow_their_parent_and_precede_the_next_item() -> None:
    graph = Graph("g")
    graph.source("in").flat_map(str.split).sink("out")
    first, second = meta_of(ONE, 0), meta_of(ONE, 1)
    assert run(graph, "a b", "c")["out"] == [
        (child(first, 0), "a"),
        (child(first, 1), "b"),
        (child(second, 0), "c"),
    ]


def test_each_edge_out_of_a_vertex_with_several_extends_the_meta() -> None:
    graph = Graph("g")
    left, right = graph.source("in").broadcast(2)
    left.filter(lambda n: n % 2 == 0).merge(right).sink("out")
    first, second = meta_of(ONE, 0), meta_of(ONE, 1)
    assert run(graph, 1, 2)["out"] == [(child(first, 1), 1), (child(second, 0), 2), (child(second, 1), 2)]


def test_runs_are_taken_in_time_order_whatever_order_they_are_given_in() -> None:
    graph = Graph("g")
    graph.source("in").sink("out")
    assert values(interpret(graph, [(TWO, ["late"]), (ONE, ["early"])])) == ["early", "late"]


def test_runs_of_two_fronts_meet_in_time_order() -> None:
    graph = Graph("g")
    left = graph.source("left").map(lambda n: f"l{n}")
    left.merge(graph.source("right").map(lambda n: f"r{n}")).sink("out")
    runs = [(time_of(Timestamp(t), FrontId(f)), [t]) for t, f in [(1, 1), (1, 0), (2, 0), (3, 1)]]
    assert values(interpret(graph, runs)) == ["l1", "r1", "l2", "r3"]


def test_a_grouping_gives_the_last_window_of_its_key() -> None:
    graph = Graph("g")
    windows = graph.source("in").group(2, key=lambda pair: pair[0])
    windows.map(lambda window: tuple(pair[1] for pair in window)).sink("out")
    assert values(run(graph, ("a", 1), ("b", 2), ("a", 3), ("a", 4))) == [(1,), (2,), (1, 3), (3, 4)]


def test_keys_are_told_apart_by_encoding_and_never_by_equality() -> None:
    graph = Graph("g")
    graph.source("in").group(3, key=same).sink("out")
    assert [len(window) for window in values(run(graph, 1, True, 1.0, 1))] == [1, 1, 1, 2]


def test_reduce_emits_a_result_an_item_with_the_items_meta() -> None:
    graph = Graph("g")
    texts = graph.source("in").reduce(
        key=lambda p: p[0],
        initial=str,
        combine=lambda text, p: text + p[1],
        emit=lambda text, p: (p[0], text),
    )
    texts.sink("out")
    results = run(graph, ("k", "a"), ("j", "x"), ("k", "b"))
    assert results["out"] == [
        (meta_of(ONE, 0), ("k", "a")),
        (meta_of(ONE, 1), ("j", "x")),
        (meta_of(ONE, 2), ("k", "ab")),
    ]


def test_reduce_without_emit_gives_the_accumulator() -> None:
    graph = Graph("g")
    graph.source("in").reduce(
        key=lambda _: 0, initial=Vector, combine=lambda vector, n: vector.append(n)
    ).map(tuple).sink("out")
    assert values(run(graph, 1, 2)) == [(1,), (1, 2)]


@pytest.mark.parametrize("begins", ["always", "never"])
@pytest.mark.parametrize(
    "records",
    [
        ["a"], ["a", "b", "a"], ["bad", "a"], ["a", "bad", "a", "b"], ["a", "keyless", "b"], ["odd", "a", "b"],
        ["a", "odd", "b"],
    ],
)  # fmt: skip
def test_unfused_reduce_gives_the_payloads_and_the_errors_of_the_fused_one(
    records: list[str], begins: str
) -> None:
    def keyed(letter: str) -> str:
        if letter == "keyless":
            raise KeyError(letter)
        return "k"

    def appended(text: str, letter: str) -> str:
        if letter == "bad":
            raise ValueError("bad letter")
        return text + letter if letter != "odd" else object()  # type: ignore[return-value]  # no payload

    def nothing() -> str:
        if begins == "never":
            raise LookupError("not yet")
        return ""

    outputs = []
    for fused in (True, False):
        graph = Graph("g")
        texts = graph.source("in").reduce(
            key=keyed, initial=nothing, combine=appended, emit=lambda text, _: text, fused=fused
        )
        texts.sink("out")
        outputs.append(
            (
                values(run(graph, *records)),
                [(e.function, e.error, e.message) for e in values(run(graph, *records), ERRORS)],
            )
        )
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("fatal", [MemoryError, RecursionError])
def test_failures_of_the_machine_pass_through_an_unfused_reduce(fatal: type[Exception]) -> None:
    failures = [fatal]

    def fails_once(text: str, letter: str) -> str:
        if failures:
            raise failures.pop()
        return text + letter

    graph = Graph("g")
    graph.source("in").reduce(key=same, initial=str, combine=fails_once, fused=False).sink("out")
    with pytest.raises(fatal):
        run(graph, "a")


def test_an_item_goes_round_a_cycle_before_the_next_record_enters() -> None:
    graph = Graph("g")
    back = graph.loop("halve", max_iterations=10)
    numbers = graph.source("in").merge(back)
    back.close(numbers.filter(lambda n: n > 1).map(lambda n: n // 2))
    numbers.sink("out")
    results = run(graph, 4, 100)
    assert sorted(values(results)[:3]) == [1, 2, 4]
    assert in_order(results)


def test_a_loop_that_does_not_end_is_an_error_item() -> None:
    graph = Graph("g")
    back = graph.loop("for ever", max_iterations=3)
    numbers = graph.source("in").merge(back)
    back.close(numbers.flat_map(lambda n: [n]))
    numbers.sink("out")
    [error] = values(run(graph, 1), ERRORS)
    assert (error.function, error.error) == ("loop", "LoopLimit")


def failing(payload: Any, *_: Any) -> Any:
    raise KeyError(payload)


def half_way(payload: Any) -> Any:
    yield payload
    raise KeyError(payload)


def not_a_payload(payload: Any) -> Any:
    return object()


@pytest.mark.parametrize(
    ("build", "function", "error"),
    [
        (lambda s: s.map(failing), failing, "KeyError"),
        (lambda s: s.map(not_a_payload), not_a_payload, "PayloadError"),
        (lambda s: s.filter(failing), failing, "KeyError"),
        (lambda s: s.flat_map(half_way), half_way, "KeyError"),
        (lambda s: s.flat_map(len), len, "TypeError"),
        (lambda s: s.group(2, key=failing), failing, "KeyError"),
        (lambda s: s.group(2, key=not_a_payload), not_a_payload, "PayloadError"),
        (lambda s: s.reduce(key=failing, initial=str, combine=same), failing, "KeyError"),
        (lambda s: s.reduce(key=same, initial=str, combine=failing), failing, "KeyError"),
        (
            lambda s: s.reduce(key=same, initial=str, combine=lambda a, p: a, emit=failing),
            failing,
            "KeyError",
        ),
    ],
)
def test_a_failure_replaces_the_whole_result_by_one_error_item(build: Any, function: Any, error: str) -> None:
    graph = Graph("g")
    build(graph.source("in")).sink("out")
    results = run(graph, "x")
    [(meta, value)] = results[ERRORS]
    assert not results["out"]
    assert (meta, value.function, value.error) == (
        child(meta_of(ONE, 0), 1),
        f"{function.__module__}.{function.__qualname__}",
        error,
    )


def test_a_sink_key_that_fails_is_an_error_item() -> None:
    graph = Graph("g")
    graph.source("in").sink("out", key=failing)
    assert [e.error for e in values(run(graph, "x"), ERRORS)] == ["KeyError"]


def test_failures_of_one_item_on_two_branches_have_different_metas() -> None:
    graph = Graph("g")
    left, right = graph.source("in").broadcast(2)
    left.map(failing).merge(right.map(failing)).sink("out")
    results = run(graph, "x")
    assert len({meta for meta, _ in results[ERRORS]}) == 2
    assert in_order(results)


def test_a_failed_combine_leaves_the_accumulator_and_a_failed_emit_does_not() -> None:
    def combine(total: int, n: int) -> int:
        return total + (failing(n) if n == 100 else n)

    def emit(total: int, n: int) -> int:
        return failing(n) if n == 10 else total

    graph = Graph("g")
    graph.source("in").reduce(key=lambda _: 0, initial=int, combine=combine, emit=emit).sink("out")
    assert values(run(graph, 1, 100, 10, 1)) == [1, 12]


def test_bad_input_goes_to_the_errors_with_its_own_meta() -> None:
    graph = Graph("g")
    graph.source("in").map(failing).sink("out")
    bad = ErrorValue(function="source in", error="UnicodeDecodeError", message="byte 3")
    assert interpret(graph, [(ONE, [bad])])[ERRORS] == [(meta_of(ONE, 0), located(bad, "in", None))]


def test_on_error_fail_stops_before_the_run_that_has_the_error() -> None:
    graph = Graph("g")
    graph.source("in").map(lambda n: 10 // n).sink("out")
    results = interpret(graph, [(ONE, [1, 2]), (TWO, [5, 0]), (Time(TWO * 2), [1])], on_error="fail")
    assert values(results) == [10, 5]
    assert [e.error for e in values(results, ERRORS)] == ["ZeroDivisionError"]


def test_metas_are_strictly_ascending_in_every_sink() -> None:
    graph = Graph("g")
    words = graph.source("in").flat_map(str.split)
    counted = words.reduce(key=same, initial=int, combine=lambda n, _: n + 1, fused=False)
    words.filter(lambda w: w != "b").merge(counted.map(str)).sink("out")
    results = run(graph, "a b a", "b a b b", "")
    assert len(results["out"]) == 10
    assert in_order(results)


def test_results_carry_bytes_as_metas() -> None:
    graph = Graph("g")
    graph.source("in").sink("out")
    assert isinstance(run(graph, 1)["out"][0][0], bytes)
    assert Meta(run(graph, 1)["out"][0][0]) == meta_of(ONE, 0)
