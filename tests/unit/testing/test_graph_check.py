"""`testing.check`: right graphs pass, and whatever is not the same each time is found, shrunk and told in
users' words."""

import pickle
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Lock
from typing import Any

import pytest
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError, UserError
from flamestream.model.event_time import ARRIVAL
from flamestream.testing import CheckFailed, check
from flamestream.testing.schedule import Schedule


@fs.event
class Click:
    user: str
    page: str
    at: int


CLICKS = st.builds(Click, st.sampled_from("ab"), st.sampled_from(["home", "shop"]), st.integers(0, 60))
LINES = st.lists(st.sampled_from(["to", "be", "or", "not", "that", "is", "the", "question"]), max_size=6).map(
    " ".join
)
NUMBERS = count()


def windows(merge: Any = None) -> fs.Graph:
    graph = fs.Graph("windows", shards=4)
    clicks = graph.source("clicks", at="at", unit="s", late="60s", idle="1m")
    clicks.window(fs.session("10s"), key="user").fold(
        initial=int, combine=lambda n, _: n + 1, merge=merge
    ).sink("sessions")
    return graph


def of_lines(operation: str, function: Any) -> fs.Graph:
    graph = fs.Graph("lines")
    getattr(graph.source("lines"), operation)(function).sink("out", key=lambda _: 0)
    return graph


def found(graph: fs.Graph, **inputs: Any) -> str:
    with pytest.raises(CheckFailed) as failed:
        check(graph, **{"seed": 7, "examples": 20, **inputs})
    return str(failed.value)


def test_windows_joins_and_late_items_of_several_sources_pass() -> None:
    graph = fs.Graph("clicks", shards=4)
    clicks = graph.source("clicks", at="at", unit="s", late="5s", idle="1m")
    views = graph.source("views", at="at", unit="s", late="5s", idle="1m", max_ahead="1h")
    counts = clicks.window(fs.tumbling("10s"), key="user").count()
    counts.sink("counts")
    counts.late.sink("late")
    clicks.join(views, on="user", within=("-5s", "5s"), how="full").sink("pairs")
    check(graph, clicks=CLICKS, views=CLICKS, examples=4, records=8, seed=1)


@pytest.mark.parametrize("seed", [15, 26, 40])
def test_programs_of_the_usual_number_of_shards_pass(seed: int) -> None:
    """Under schedules whose slices are small: with these no epoch of such a graph was ever done."""
    graph = fs.Graph("clicks")
    clicks = graph.source("clicks", at="at", unit="s", late="5s")
    clicks.window(fs.tumbling("10s"), key="user").count().sink("counts")
    clicks.window(fs.session("30s"), key="user").collect().sink("sessions")
    clicks.join(clicks, on="user", within=("-5s", "5s"), how="full").sink("pairs")
    clicks.process(key="user", on_item=lambda state, click, now: (click.at, [now.late])).sink("own")
    Schedule("exactly-once", 1, faults=False, seed=seed).run(graph, {"clicks": [Click("ann", "home", 3)] * 2})


def test_arrival_times_and_clocks_pass() -> None:
    graph = fs.Graph("arrivals", step="5ms", shards=4)
    graph.source("lines", clock="arrival").window(fs.tumbling("10ms"), key=len).count().sink("counts")
    graph.clock("ticks", every="1ms").map(str).sink("moments")
    moments = [datetime(2026, 11, 24, tzinfo=UTC) + timedelta(milliseconds=number) for number in range(5)]
    check(graph, lines=LINES, ticks=moments, seed=1)
    assert pickle.loads(pickle.dumps(ARRIVAL)) is ARRIVAL  # in another process too it is known by identity


def test_a_class_of_a_script_or_notebook_goes_to_the_other_process() -> None:
    """No module has it, so it is copied by value; the graph has decoded some of it."""

    @fs.event
    class Word:
        text: str

    graph = fs.Graph("words")
    graph.source("words", Word).map(fs.field("text")).sink("out")
    assert graph.run(words=['{"text": "to"}'])["out"] == ["to"]
    check(graph, words=st.builds(Word, st.sampled_from(["to", "be"])), examples=2, seed=1)
    assert graph.run(words=['{"text": "be"}'])["out"] == ["be"]


def test_records_are_a_strategy_of_one_or_of_lists_or_a_list() -> None:
    graph = of_lines("map", str.upper)
    for records in (LINES, st.lists(LINES, max_size=3), ["to be", "or not"]):
        check(graph, lines=records, examples=2, other_process=False)


@pytest.mark.parametrize(
    "function",
    [lambda line: next(NUMBERS), lambda line: time.time_ns(), lambda line: random.random()],
    ids=["counter", "clock", "chance"],
)
def test_a_function_that_is_not_pure_is_named_with_the_least_record(function: Any) -> None:
    text = found(of_lines("map", function), lines=LINES)
    assert "<lambda> gave two results for one input" in text
    assert "lines = ('',)" in text


@fs.event
class Total:
    lines: int = 0


def raised(total: Total, line: str) -> Total:
    object.__setattr__(total, "lines", total.lines + 1)
    return total


def test_a_changed_accumulator_is_named() -> None:
    graph = fs.Graph("changed")
    graph.source("lines").reduce(key=len, initial=Total, combine=raised).sink("out")
    assert "raised changes its input" in found(graph, lines=LINES)


def test_a_merge_is_held_to_its_combine() -> None:
    check(windows(merge=lambda a, b: a + b), clicks=CLICKS, examples=3, records=8)
    text = found(windows(merge=max), clicks=CLICKS)
    assert "builtins.max is no merge of" in text
    assert "it gave 1 for 1 and 1, but folding" in text and "gives 2" in text


def test_a_merge_of_fractions_may_round() -> None:
    graph = fs.Graph("fractions", shards=1)
    clicks = graph.source("clicks", at="at", unit="s", late="60s")
    sums = clicks.window(fs.session("10s"), key="user")
    sums.fold(
        initial=float, combine=lambda total, click: total + click.at / 7, merge=lambda a, b: a + b
    ).sink("sums")
    check(
        graph, clicks=[Click("a", "home", at) for at in (0, 1, 2, 3, 5, 8)], examples=2, other_process=False
    )


@pytest.mark.parametrize(
    ("operation", "function"),
    [("flat_map", lambda line: set(line.split())), ("map", lambda line: int(time.time()))],
    ids=["order of a set", "seconds of a clock"],
)
def test_what_is_the_same_twice_differs_in_another_process(operation: str, function: Any) -> None:
    text = found(of_lines(operation, function), lines=LINES)
    assert (
        "in another process it gives other results: a function depends on something that is not its input"
        in text
    )
    assert "sink 'out', result 0: " in text


def inside_a_job(line: str) -> bool:
    """Whether a worker calls."""
    frame = sys._getframe()
    while (above := frame.f_back) is not None:
        frame = above
        if frame.f_globals["__name__"] == "flamestream.core.worker.worker":
            return True
    return False


def test_what_differs_in_a_job_alone_is_told_with_sink_and_schedule() -> None:
    text = found(of_lines("map", inside_a_job), lines=LINES, guarantees=["exactly-once"])
    assert (
        "as a job it gives other results than the reference interpreter\n  sink 'out': True instead of False"
        in text
    )
    assert "as a job: exactly-once, 1 worker, no faults, schedule 0" in text


def test_a_schedule_has_recoveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of recovery is taken away: only a job that recovers can show it."""
    monkeypatch.setattr(
        "flamestream.core.dataflow.delivery.Delivery.opened", lambda self, last, compare: None
    )
    text = found(
        of_lines("map", len), lines=LINES, examples=60, guarantees=["exactly-once"], other_process=False
    )
    assert ", faults, schedule" in text


def test_an_error_item_fails_unless_it_is_meant() -> None:
    graph = of_lines("map", lambda line: 1 // len(line))
    text = found(graph, lines=LINES)
    assert "raised ZeroDivisionError: integer division or modulo by zero (a record of source 'lines')" in text
    check(graph, lines=LINES, examples=3, on_error="dead-letter", other_process=False)


def test_the_seed_finds_the_same_again() -> None:
    graph = of_lines("map", lambda line: 1 // (len(line) - 2))
    with pytest.raises(CheckFailed) as first:
        check(graph, lines=LINES)
    seed = int(str(first.value).rpartition("seed=")[2].rstrip(")"))
    assert found(graph, lines=LINES, seed=seed) == str(first.value)


def test_what_cannot_be_checked_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = of_lines("map", len)
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "give each its records, and 'lines'"),
        ({"lines": LINES, "words": LINES}, "give each its records, and 'words'"),
        ({"lines": LINES, "guarantees": ["twice"]}, "guarantee 'twice' is none of exactly-once,"),
        ({"lines": [["a list"]]}, "the records of source 'lines' are payloads, and .* is none: a list is not "
                                  "a payload: use a tuple"),
    ]  # fmt: skip
    for wrong, message in refused:
        with pytest.raises(GraphError, match=message):
            check(graph, other_process=False, **wrong)
    lock = Lock()
    with pytest.raises(
        UserError, match=r"cannot be copied to another process .*leave this out with other_process=False"
    ):
        check(of_lines("map", lambda line: str(lock)), lines=LINES)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(UserError, match=r"pip install 'flamestream\[testing\]'"):
        check(graph, lines=LINES, other_process=False)


def tossed(number: int) -> tuple[int, float]:
    return number, random.random()


def several(toss: tuple[int, float]) -> list[tuple[int, float]]:
    return [toss] * random.randint(0, 2)


def lottery(key: Any) -> fs.Graph:
    graph = fs.Graph("lottery")
    tickets = graph.source("numbers", int).map(tossed)
    tickets.sink("tickets")
    tickets.flat_map(several).reduce(key=key, initial=str, combine=lambda text, toss: f"{text},{toss}").sink(
        "drawn"
    )
    return graph


def test_under_strong_productions_functions_may_toss_coins() -> None:
    numbers = st.integers(0, 9)
    check(lottery(lambda toss: toss[0] % 3), guarantees=["strong-productions"], seed=1, numbers=numbers)
    with pytest.raises(CheckFailed, match="tossed gave two results for one input"):
        check(lottery(lambda toss: 0), guarantees=["strong-productions", "none"], seed=1, numbers=numbers)


def test_what_is_no_production_must_be_deterministic_there_too() -> None:
    with pytest.raises(CheckFailed, match="lambda> gave two results for one input"):
        check(
            lottery(lambda toss: random.random()), guarantees=["strong-productions"], seed=1,
            numbers=st.integers(0, 9),
        )  # fmt: skip


def test_a_guarantee_that_a_graph_cannot_have_is_refused_if_it_is_asked_for() -> None:
    graph = fs.Graph("g")
    loop = graph.loop("again", 9)
    numbers = graph.source("numbers", int).merge(loop)
    loop.close(numbers.filter(lambda number: number > 9).map(lambda number: number // 2))
    numbers.filter(lambda number: number <= 9).sink("out")
    check(graph, seed=1, examples=3, numbers=st.integers(0, 99))
    with pytest.raises(GraphError, match="stands in a loop: under strong-productions"):
        check(graph, guarantees=["strong-productions"], numbers=[1])


def test_a_graph_with_calls_is_refused() -> None:
    graph = fs.Graph("asks")
    graph.source("items").call(str, name="asked").sink("out")
    with pytest.raises(GraphError, match=r"has calls \(asked\(\)\), which a simulated job cannot make"):
        check(graph, items=[1])
