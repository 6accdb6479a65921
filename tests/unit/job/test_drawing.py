"""What `flamestream plan` draws."""

import re
from collections.abc import Callable
from operator import add
from typing import Any

import pytest

import flamestream as fs
from flamestream.job.plan.drawing import described, mermaid, text
from flamestream.model.graph import Graph


def test_each_edge_is_an_arrow_also_where_two_lead_to_one_vertex() -> None:
    graph = Graph("twice")
    one, other = graph.source("numbers").broadcast(2)
    one.merge(other).sink("out")
    assert mermaid(graph.validated()).count("v0 --> v1") == 2


def test_a_label_with_signs_of_mermaids_own_is_quoted() -> None:
    graph = Graph("signs")
    events = graph.source("events (raw)", at="at").map(fs.field("price") * 2)
    events.window(fs.tumbling("1m"), key="k").count().sink("out")
    drawn = mermaid(graph.validated())
    assert 'v0(["events (raw)"])' in drawn
    assert 'v2["map fs.field(#quot;price#quot;) * 2"]' in drawn
    bare = re.sub(r'"[^"]*"', "", drawn)
    assert not re.search(r"[<>#;'.]|\w\(\w", bare.replace("-->", "")), bare


KEPT: dict[str, tuple[Callable[[fs.Stream[Any], fs.Stream[Any]], fs.Stream[Any]], str]] = {
    "window": (
        lambda left, _: left.window(fs.tumbling("1m"), key="k").count(),
        "a value a key and window, until the mark is at the window's end",
    ),
    "ranking": (
        lambda left, _: left.window(fs.tumbling("1m"), key="k").top(3, by=fs.size),
        "the best 3 keys a window, until the mark is at the window's end",
    ),
    "session": (
        lambda left, _: left.window(fs.session("90s"), key="k").count(),
        "a value a key and open session, until the mark is 90s past its last item",
    ),
    "session of items": (
        lambda left, _: left.window(fs.session("30m"), key="k").fold(initial=int, combine=add),
        "the items a key and open session, until the mark is 30m past its last item",
    ),
    "join": (
        lambda left, right: left.join(right, on="k", within=("-1h", "5s")),
        "the left's items until the mark is 5s past them, the right's 1h",
    ),
    "unbounded join": (
        lambda left, right: left.join(right, on="k", unbounded=True),
        "every item of both sides, for ever",
    ),
    "latest": (
        lambda left, right: left.join_latest(right, on="k"),
        "the left's items until the mark is past them, and of each key the right's item at the mark and all "
        "younger ones, for ever",
    ),
    "table": (
        lambda left, right: left.join_table(right, on="k"),
        "the last item of each side and key, for ever",
    ),
    "dedup": (
        lambda left, _: left.dedup("k", within="1.5s"),
        "the times of what passed, until the mark is 1500ms past them",
    ),
    "ttl": (
        lambda left, _: left.reduce(key="k", combine=fs.count(), ttl="24h"),
        "an accumulator a key, until the mark is 1d past its last item",
    ),
    "reduce": (
        lambda left, _: left.reduce(key="k", combine=fs.count()),
        "an accumulator a key, for ever",
    ),
    "group": (lambda left, _: left.group(3, key="k"), "the last 3 items a key, for ever"),
    "process": (
        lambda left, _: left.process(key="k", on_item=lambda state, item, now: (state, ())),
        "a state a key, until your functions return None for it",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_plan_says_what_is_kept_and_until_when(name: str) -> None:
    made, kept = KEPT[name]
    graph = Graph("kept")
    left, right = (graph.source(source, at="at", unit="s") for source in ("left", "right"))
    right.sink("right")
    made(left, right).sink("out")
    lines = [line for line in text(graph.validated()).splitlines() if " keeps " in line]
    assert lines[-1].partition(" keeps ")[2] == kept
    vertices = described(graph)["vertices"]
    assert isinstance(vertices, list)
    assert [vertex["keeps"] for vertex in vertices if vertex["keeps"]][-1] == kept


def test_what_has_no_state_keeps_nothing() -> None:
    graph = Graph("copy")
    graph.source("in").map(len).sink("out")
    assert "keeps" not in text(graph.validated())


def test_a_plan_says_which_functions_run_in_the_kernel_and_why_others_do_not() -> None:
    graph = Graph("some")
    records: fs.Stream[Any] = graph.source("records", at="at", unit="s")
    records.filter(lambda record: record.cents > 99).map(len).sink("kept", key=lambda length: length.real)
    records.window(fs.tumbling("1m"), key="shop").count().sink("counts")
    graph = graph.validated()
    said = [line for line in text(graph).splitlines() if " runs in " in line]
    assert [re.sub(r"^\d+ |:\d+\)", "", line) for line in said] == [
        "function runs in the kernel: <lambda> (test_drawing.py",
        "function runs in Python: builtins.len: it has no code that could be looked at",
        "key runs in the kernel: <lambda> (test_drawing.py",
        'key runs in the kernel: fs.field("shop")',
        "combine runs in the kernel: fs.count()",
    ]
    functions = described(graph)["functions"]
    assert isinstance(functions, list) and [each["why_python"] is None for each in functions] == [
        True, False, True, True, True,
    ]  # fmt: skip


def test_a_plan_claims_no_more_for_the_kernel_than_it_is_told() -> None:
    graph = Graph("some")
    records: fs.Stream[Any] = graph.source("records", at="at", unit="s")
    window = records.window(fs.tumbling("1m"), key="shop")
    window.fold(initial=fs.Vector, combine=fs.append("cents")).sink("lists")
    window.mean("cents").sink("means")
    records.balance(lambda key: key.cents).reduce(key="shop", combine=fs.count()).sink("counts")
    said = [line for line in text(graph.validated()).splitlines() if " runs in Python: " in line]
    assert len(said) == 3 and said[0].endswith('fs.append("cents"): it is not ready-made')
    assert said[1].endswith("combine runs in Python: mean('cents'): it is not ready-made")
    assert " balance runs in Python: " in said[2]


def test_a_plan_names_a_join_of_tables_and_every_function_of_a_program() -> None:
    graph = Graph("some")
    left, right = (graph.source(source, at="at", unit="s") for source in ("left", "right"))
    left.join_table(right, on=("shop", str.upper)).sink("tables")
    left.reduce(key="shop", combine=fs.count(), ttl="1h").sink("visits")
    left.process(
        key="shop",
        on_item=lambda state, item, now: (state, ()),
        on_time=lambda state, time: (None, ()),
        due=hash,
    ).sink("own")
    drawn = text(graph.validated())
    assert "reduce join_table(on='shop' and ?.str.upper)" in drawn
    said = [line for line in drawn.splitlines() if " runs in " in line]
    assert [re.sub(r"^\d+ |:\d+\)", "", line) for line in said] == [
        'key runs in the kernel: fs.field("shop")',
        "key runs in Python: ?.str.upper: it has no code that could be looked at",
        'key runs in the kernel: fs.field("shop")',
        "combine runs in Python: fs.count(): the kernel has no fold with a ttl",
        'key runs in the kernel: fs.field("shop")',
        "on_item runs in Python: <lambda> (test_drawing.py: the kernel has no program of one's own",
        "on_time runs in Python: <lambda> (test_drawing.py: the kernel has no program of one's own",
        "due runs in Python: builtins.hash: the kernel has no program of one's own",
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "11 tries of 30s,"),
        ({"retries": 0}, "one try of 30s,"),
        ({"doubt": "never"}, "one try of 30s,"),
        ({"give_up_after": "10m"}, "tries of 30s within 10m,"),
        ({"give_up_after": "10m", "retries": 4}, "5 tries of 30s within 10m,"),
    ],
)
def test_how_often_a_call_is_tried_is_said(settings: dict[str, Any], said: str) -> None:
    graph = Graph("calls")
    graph.source("numbers").call(fs.call(**settings)(len)).sink("out")
    assert f": {said}" in text(graph.validated())
