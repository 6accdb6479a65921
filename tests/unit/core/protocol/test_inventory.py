"""Whether a graph can go on from another one's snapshot: what is in the way is said by name, with what to
do."""

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

import flamestream as fs
from flamestream.core.protocol.chain import Chain, Row, chains_of, is_older
from flamestream.core.protocol.inventory import (
    inventory_of,
    leaving,
    misfit,
    next_inventory,
    only_in,
    source_keys,
)
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.protocol.snapshot import Inventory, SegmentRef, SnapshotIndex
from flamestream.core.protocol.stored_rows import TOGETHER, Numbers, states_of
from flamestream.model.calls.productions import with_productions
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Epoch, SinkName, Slot, SourceName
from flamestream.model.payload import encode
from flamestream.model.state_names import Named, number_of_sink
from flamestream.model.stream import Stream
from flamestream.model.tables.ledger import Table
from flamestream.model.time import END, FrontId, Time
from support.payloads import defined


def same(item: Any) -> Any:
    return item


def word(text: str) -> str:
    return text


def sized(before: int, text: str) -> int:
    return before + len(text)


def graph(
    *, sources: tuple[str, ...] = ("lines",), name: str | None = "sizes", was: str | None = None, group: int = 0,
    sink: str = "out",
) -> Graph:  # fmt: skip
    """One stream of these sources, a reduce of this name, and a `group` of so many."""
    built = Graph("g")
    first, *others = [built.source(source) for source in sources]
    stream = first.merge(*others) if others else first
    stream.sink(sink)
    if name is not None:
        named: Named = {"name": name} if was is None else {"name": name, "was": was}
        stream.reduce(key=word, initial=int, combine=sized, **named).sink("sizes")
    if group:
        stream.group(group, key=word, name="few").sink("few")
    return built.validated()


def snapshot(of: Graph, *, named: bool = True, held: bool = False) -> SnapshotIndex:
    inventory = inventory_of(of, SinkName("dead"), fronts(of))
    ref = SegmentRef("held", 1, "", 1, ())
    return SnapshotIndex(
        job="j", graph=of.identity, python="3.11", slots=1, epoch=Epoch(3), fence=NO_FENCE, cut=Time(9), segments=(),
        fronts=(), outputs=(), held=(ref,) if held else (), inventory=inventory if named else None,
    )  # fmt: skip


def fronts(of: Graph) -> list[FrontSettings]:
    """One of each source."""
    return [
        FrontSettings(FrontId(number), SourceName(name), False, key=key)
        for number, (name, key) in enumerate(source_keys(of).items())
    ]


def reason(index: SnapshotIndex, now: Graph, *drop: str) -> str:
    return misfit(index, now.identity, inventory_of(now, SinkName("dead"), fronts(now)), drop)


def test_a_graph_fits_with_what_it_had_and_more() -> None:
    before = snapshot(graph())
    assert reason(before, graph()) == reason(before, graph(group=3)) == ""
    assert reason(before, graph(name="lengths", was="sizes")) == ""


def test_state_of_an_operation_that_is_gone_is_not_forgotten_unless_that_is_said() -> None:
    before = snapshot(graph())
    said = reason(before, graph(name=None))
    assert "state of operation 'sizes', and this graph has no such operation" in said
    assert "say was='sizes' there" in said and "upgrade: {drop: [sizes]}" in said
    assert reason(before, graph(name=None), "sizes") == ""
    assert "there is no state for 'lengths'" in reason(before, graph(name="lengths"))


def test_a_rename_is_said_for_as_long_as_the_state_lives() -> None:
    """Its number is made of the first name."""
    renamed = next_inventory(snapshot(graph()), inventory_of(graph(name="lengths", was="sizes")))
    before = replace(snapshot(graph()), inventory=renamed)
    said = reason(before, graph(name="lengths"))
    assert "operation 'lengths', which was 'sizes'," in said and "say was='sizes' there" in said
    assert "upgrade: {drop: [sizes]}" in said
    assert (
        reason(before, graph(name="lengths"), "sizes") == reason(before, graph(name="n", was="sizes")) == ""
    )


def test_a_name_that_yaml_would_not_take_is_quoted() -> None:
    built = Graph("g")
    built.source("lines").reduce(key=lambda s: s, initial=int, combine=sized).sink("sizes")
    said = reason(snapshot(built.validated()), graph(name=None))
    assert "upgrade: {drop: ['sized by lambda']}" in said


def test_another_form_of_state_is_another_state() -> None:
    said = reason(snapshot(graph(group=3)), graph(group=2))
    assert "operation 'few' had a state of the form the last 3, and is the last 2 now" in said
    assert "another name=" in said and "upgrade: {drop: [few]}" in said


def test_several_that_are_called_alike_fit_their_own_graph_alone() -> None:
    def twice(*, more: bool) -> Graph:
        built = Graph("g")
        lines = built.source("lines")
        for number in range(2):
            lines.reduce(key=word, initial=int, combine=sized).sink(f"sizes {number}")
        if more:
            lines.sink("out")
        return built.validated()

    before = snapshot(twice(more=False))
    assert reason(before, twice(more=False)) == ""
    assert "one of several that are called alike" in reason(before, twice(more=True))
    assert "was='sized by word #2 of 2'" in reason(before, twice(more=True))


def pair(*made: Callable[[Stream[Any]], Stream[Any]]) -> Graph:
    built = Graph("g")
    lines = built.source("lines")
    one, other = (make(lines) for make in made)
    one.merge(other).sink("out")
    return built.validated()


def filtered(keeps: Callable[[Any], bool]) -> Callable[[Stream[Any]], Stream[Any]]:
    return lambda s: s.filter(keeps).reduce(key=word, initial=int, combine=sized)


def folded(combine: Callable[[int, Any], int]) -> Callable[[Stream[Any]], Stream[Any]]:
    return lambda s: s.reduce(key=word, initial=int, combine=combine)


EXCHANGED = {
    "what is before them": (filtered(str.isupper), filtered(str.islower)),
    "their lambdas": (folded(lambda n, _: n + 1), folded(lambda n, text: n + len(text))),
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_of_two_that_are_called_alike_neither_is_given_the_others_state(name: str) -> None:
    """Their graph is the same to look at."""
    one, other = EXCHANGED[name]
    before, after = pair(one, other), pair(other, one)
    assert before.identity == after.identity
    said = reason(snapshot(before), after)
    first, second = said.split("; ")
    assert "#1 of 2' is one of several that are called alike, and is made as" in first
    assert first.endswith("#2 of 2'") and second.endswith("#1 of 2'"), "each is told its own state"
    edited = pair(one, folded(lambda n, _: n + 2))
    assert reason(snapshot(before), pair(one, other)) == ""
    assert before.identity != edited.identity or reason(snapshot(before), edited) == ""


def test_one_of_several_whose_state_is_found_by_was_may_stand_in_another_graph() -> None:
    def of(*was: str, more: bool = False) -> Graph:
        built = Graph("g")
        lines = built.source("lines")
        for number, old in enumerate(was):
            named: Named = {"was": old} if old else {}
            lines.reduce(key=word, initial=int, combine=sized, **named).sink(f"sizes {number}")
        lines.group(2, key=word, name="few").sink("few")
        if more:
            lines.sink("out")
        return built.validated()

    one, two = of(""), of("sized by word", "")
    assert reason(snapshot(one), two) == ""
    first, second = "sized by word #1 of 2", "sized by word #2 of 2"
    assert reason(snapshot(of("", "")), of(second, first, more=True)) == ""


@pytest.mark.parametrize("sources", [("lines", "more"), ("more", "lines"), ("texts",)])
def test_sources_come_and_go_and_move(sources: tuple[str, ...]) -> None:
    assert reason(snapshot(graph(sources=("lines", "other"))), graph(sources=sources)) == ""


@pytest.mark.parametrize("sources", [("lines", "more"), ("more", "lines"), ("texts",)])
def test_sources_are_the_same_in_the_same_order_where_none_has_a_name(sources: tuple[str, ...]) -> None:
    before = snapshot(graph())
    assert before.inventory is not None
    said = reason(replace(before, inventory=replace(before.inventory, fronts=())), graph(sources=sources))
    assert f"it has the sources 'lines', and this graph {', '.join(map(repr, sources))}" in said
    assert "start the graph that wrote it once more, until it has committed an epoch" in said


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (
            (True, 64),
            (True, 1),
            "by the number of a record, 64 at once, and gets them by the number of a record, 1",
        ),
        ((True, 64), (False, 0), "64 at once, and gets them by its journal now"),
        ((False, 0), (True, 64), "by its journal, and gets them by the number of a record, 64 at once now"),
    ],
)
def test_a_source_whose_records_would_get_other_times_is_refused(
    before: tuple[bool, int], now: tuple[bool, int], said: str
) -> None:
    def stamped(how: tuple[bool, int]) -> Inventory:
        timed, length = how
        return inventory_of(
            graph(),
            SinkName("dead"),
            [replaced(each, timed=timed, run_length=length) for each in fronts(graph())],
        )

    index = replace(snapshot(graph()), inventory=stamped(before))
    assert said in misfit(index, graph().identity, stamped(now))
    kept = replace(index, inventory=next_inventory(index, stamped(before)))
    assert misfit(kept, graph().identity, stamped(before)) == ""
    unsaid = replace(index, inventory=replace(stamped(before), runs=None))
    assert misfit(unsaid, graph().identity, stamped(now)) == "", "an older release did not say"


def test_how_a_source_got_its_times_is_not_forgotten_while_it_is_away() -> None:
    index = snapshot(graph(sources=("lines", "words")))
    away = next_inventory(index, inventory_of(graph(), None, fronts(graph())), ("lines", "words"))
    assert away is not None and away.runs == {"lines": 0, "words": 0}


def test_a_source_that_comes_behind_the_end_of_all_input_is_not_forgotten() -> None:
    said = reason(replace(snapshot(graph()), cut=END), graph(sources=("lines", "more")))
    assert "all of its input has ended, and source 'more' would begin behind that" in said


def test_a_call_goes_once_none_of_its_requests_is_left() -> None:
    def asking(*calls: str) -> Graph:
        built = Graph("g")
        lines = built.source("lines")
        for name in calls:
            lines.call(word, name=name).sink(name)
        lines.sink("out")
        return built.validated()

    before = snapshot(asking("ask", "tell"))
    assert reason(before, asking("tell")) == ""
    waiting = replace(before, requests=(SegmentRef("requests", 1, "", 1, ()),))
    assert reason(waiting, asking("tell", "ask", "more")) == ""
    said = reason(waiting, asking("tell"))
    assert "it holds requests of calls, and call ask() is gone: let the job drain, then remove it" in said


def test_a_clock_that_ticks_otherwise_is_another() -> None:
    def ticking(every: str) -> Graph:
        built = Graph("g")
        built.clock("tick", every=every).sink("out")
        return built.validated()

    assert source_keys(ticking("1s")) == {"tick": "tick every 1000000"}
    assert leaving(snapshot(ticking("1s")).inventory, inventory_of(ticking("2s"))) == ["tick every 1000000"]


def test_a_sink_that_output_waits_for_is_not_removed() -> None:
    assert reason(snapshot(graph()), graph(sink="other")) == ""
    said = reason(snapshot(graph(), held=True), graph(sink="other"))
    assert "it holds output for sink 'out', which this graph has not: let the job drain" in said


def test_a_snapshot_without_names_fits_its_own_graph_alone() -> None:
    before = snapshot(graph(), named=False)
    assert reason(before, graph()) == ""
    assert "before state had names: start the graph that wrote it once more" in reason(before, graph(group=2))


def test_workers_of_an_older_release_do_not_take_names_for_places() -> None:
    before = snapshot(graph())
    assert "start a newer one" in misfit(before, before.graph, None)
    assert misfit(snapshot(graph(), named=False), before.graph, None) == ""


def test_marks_go_with_the_last_window() -> None:
    def timed(*, window: bool) -> Graph:
        built = Graph("g")
        seconds = built.source("seconds", int, at=lambda second: second, unit="s")
        seconds.sink("out")
        if window:
            seconds.window(fs.tumbling("1m"), key=lambda _: None, name="minutes").count().sink("minutes")
        return built.validated()

    said = reason(snapshot(timed(window=True)), timed(window=False))
    assert "'minutes'" in said and "event time" not in said
    assert reason(snapshot(timed(window=True)), timed(window=False), "minutes") == ""


SHAPED = {
    "window": lambda s, of: s.window(fs.tumbling(of), key=same, name="op").count(),
    "window with an offset": lambda s, of: s.window(fs.tumbling("1h", offset=of), key=same, name="op").count(),
    "window every": lambda s, of: s.window(fs.sliding("1h", every=of), key=same, name="op").count(),
    "dedup": lambda s, of: s.dedup(same, within=of, name="op"),
    "join": lambda s, of: s.join(s, on=same, within=("0s", of), name="op"),
}  # fmt: skip


def shaped(make: Callable[[Stream[int]], Stream[Any]]) -> Graph:
    built = Graph("g")
    make(built.source("seconds", int, at=same, unit="s")).sink("out")
    return built.validated()


@pytest.mark.parametrize("name", SHAPED)
def test_state_whose_times_would_be_others_is_not_taken_over(name: str) -> None:
    one, two = (shaped(lambda s, of=of: SHAPED[name](s, of)) for of in ("1m", "2m"))  # type: ignore[misc]
    assert "operation 'op' had a state of the form" in reason(snapshot(one), two)
    assert reason(snapshot(one), one) == ""


def test_a_join_that_keeps_another_side_has_another_state() -> None:
    inner, left = (
        shaped(lambda s, how=how: s.join(s, on=same, within=("0s", "1m"), how=how, name="op"))  # type: ignore[misc]
        for how in ("inner", "left")
    )
    assert "the form inner join within 0s to 1m in 64 shards" in reason(snapshot(inner), left)


def test_sessions_go_on_with_another_gap() -> None:
    """Those that are open know their ends."""
    short, long = (
        shaped(lambda s, gap=gap: s.window(fs.session(gap), key=same, name="op").count())  # type: ignore[misc]
        for gap in ("1m", "2m")
    )
    assert reason(snapshot(short), long) == ""


def test_windows_with_other_marks_are_others() -> None:
    def of(*names: str) -> Graph:
        built = Graph("g")
        streams = [built.source(name, int, at=lambda second: second, unit="s") for name in ("a", "b")]
        first, *others = [stream for stream, name in zip(streams, ("a", "b"), strict=True) if name in names]
        merged = first.merge(*others) if others else first
        merged.window(fs.tumbling("1m"), key=lambda _: None, name="minutes").count().sink("minutes")
        streams[1].sink("rest")
        return built.validated()

    assert (
        "steps of 1s of a, and is windows of 1m every 1m from 0s in 64 shards, steps of 1s of a, b now"
        in reason(snapshot(of("a")), of("a", "b"))
    )


def test_rows_count_from_behind_the_snapshot_before() -> None:
    """A batch whose epoch was aborted has rows of that epoch, and is committed as a later one: between the
    snapshot before and the epoch that is committed."""
    before, both = snapshot(graph()), graph(group=2)
    listed = next_inventory(before, inventory_of(both))
    assert listed is not None and before.epoch == 3
    after = replace(before, epoch=Epoch(5), inventory=listed)
    few = both.operations[1]
    chains = [
        Chain(few.number, Slot(0), key, Epoch(epoch), True, (b"",)) for epoch, key in ((3, b"o"), (4, b"n"))
    ]
    found = states_of(chains, Numbers(both).known(after))
    assert [chain.key for its in found.values() for chain in its] == [b"n"]


def test_the_one_key_of_many_that_has_an_older_class_is_found() -> None:
    """Keys are looked at together, and their rows may only look like one where one ends."""
    before = defined("Once", {"a": int})
    old = encode(before(1))
    known = snapshot(graph())
    now = defined("Once", {"a": int, "b": int}, {"b": 0})
    (sizes,) = graph().operations
    rows = [encode(now(number, 2)) for number in range(2 * TOGETHER)]
    rows[TOGETHER + 1], rows[TOGETHER - 2 : TOGETHER] = old, [b"x" + old[:3], old[3:]]
    chains = [
        Chain(sizes.number, Slot(0), encode(f"k{number}"), Epoch(2), True, (row,))
        for number, row in enumerate(rows)
    ]
    (found,) = states_of(chains, Numbers(graph()).known(known)).values()
    assert [number for number, chain in enumerate(found) if is_older(chain.states)] == [TOGETHER + 1]


def test_what_is_listed_says_since_when_and_where_older_rows_are() -> None:
    few, both = inventory_of(graph()), inventory_of(graph(group=2))
    first = next_inventory(None, few)
    assert first is not None and [(each.name, each.since, each.place) for each in first.operations] == [
        ("sizes", 0, None)
    ]
    second = next_inventory(replace(snapshot(graph()), inventory=first), both)
    assert second is not None and [(each.name, each.since) for each in second.operations] == [
        ("sizes", 0),
        ("few", 4),
    ]
    nameless = next_inventory(snapshot(graph(), named=False), few)
    assert nameless is not None and [(each.since, each.place) for each in nameless.operations] == [
        (0, graph().operations[0].place)
    ]
    later = next_inventory(replace(snapshot(graph()), inventory=nameless), both)
    assert later is not None and later.operations[0] == nameless.operations[0]


def strong(*before: str, twice: bool = False) -> Graph:
    """A chain behind some others, as a production."""
    built = Graph("g")
    lines = built.source("lines")
    for name in before:
        lines.reduce(name=name, key=word, initial=int, combine=sized).sink(name)
    lines.map(word).sink("out")
    if twice:
        lines.map(word).sink("again")
    return with_productions(built)


def test_a_production_is_found_whatever_stands_before_it() -> None:
    waiting = replace(snapshot(strong()), requests=(SegmentRef("requests", 1, "", 1, ()),))
    assert reason(waiting, strong("sizes")) == ""
    asked = number_of_sink("production:word()")
    assert Numbers(strong()).of_sink(asked) is not None
    assert Numbers(strong("sizes")).of_sink(asked) is not None


def test_chains_that_are_called_alike_fit_an_unchanged_graph_alone() -> None:
    assert reason(snapshot(strong(twice=True)), strong(twice=True)) == ""
    said = reason(snapshot(strong(twice=True)), strong("sizes", twice=True))
    assert "production:word #1 of 2() is one of several chains of functions that are called alike" in said


def test_requests_of_a_production_that_had_its_place_for_a_name_are_found() -> None:
    graph = strong("sizes")
    (asked,) = (vertex for vertex in graph.sinks if vertex.call is not None)
    assert asked.placed == "production:3()"
    assert Numbers(graph).of_sink(number_of_sink("production:3()")) == asked.id
    before = snapshot(graph)
    assert before.inventory is not None
    placed = replace(before.inventory, sources=("lines", "production:3()"), fronts=())
    assert reason(replace(before, inventory=placed), graph) == ""
    assert "before sources were found by name" in reason(replace(before, inventory=placed), strong())


def test_a_graph_may_get_productions_and_lose_them() -> None:
    plain = Graph("g")
    lines = plain.source("lines")
    lines.reduce(name="sizes", key=word, initial=int, combine=sized).sink("sizes")
    lines.map(word).sink("out")
    assert reason(snapshot(plain), strong("sizes")) == reason(snapshot(strong("sizes")), plain) == ""


def bank(*tables: str) -> Graph:
    """A graph whose transactions have these tables."""
    made = Graph("bank")
    ours = [made.table(name, initial=int) for name in tables]
    made.source("s").upsert(ours[0], key=str).committed.sink("out")
    return made


def test_tables_may_come_and_go_only_if_that_is_said() -> None:
    before = snapshot(bank("accounts", "limits"))
    assert reason(before, bank("accounts", "limits", "owners")) == ""
    said = reason(before, bank("accounts", "limit"))
    assert "it has rows of table 'limits', and this graph has no such table" in said
    assert reason(before, bank("accounts", "limit"), "limits") == ""


def test_a_snapshot_says_the_tables_of_the_code_that_made_it() -> None:
    before, more = snapshot(bank("accounts")), inventory_of(bank("accounts", "owners"))
    after = next_inventory(before, more)
    assert after is not None and only_in(after, before.inventory) == ["owners"]
    assert only_in(before.inventory, after) == []


def test_a_snapshot_says_which_tables_and_indexes_are_new_until_one_has_them() -> None:
    indexed = bank("accounts", "owners")
    assert indexed.ledger is not None
    Table(indexed.ledger, "accounts").index("by_value", key=str, was="by_balance")
    before, numbers = snapshot(bank("accounts")), Numbers(indexed)
    assert reason(before, indexed) == ""
    (vertex,) = numbers.known(before).operations
    assert numbers.known(before).fresh_tables(vertex) == ["by_balance", "owners"]
    after = replace(before, inventory=next_inventory(before, inventory_of(indexed)))
    assert numbers.known(after).fresh_tables(vertex) == []


def test_a_table_is_found_by_the_name_that_it_had() -> None:
    def renamed(name: str, was: str = "") -> Graph:
        made = Graph("bank")
        table = made.table(name, initial=int, was=was)
        made.source("s").upsert(table, key=str).committed.sink("out")
        return made

    assert "say was='accounts' there" in reason(snapshot(renamed("accounts")), renamed("balances"))
    assert reason(snapshot(renamed("accounts")), renamed("balances", "accounts")) == ""
    assert reason(snapshot(renamed("balances", "accounts")), renamed("accounts")) == ""


def test_rows_of_a_table_that_was_dropped_do_not_count_where_it_comes_back() -> None:
    def at(before: SnapshotIndex | None, epoch: int, *tables: str) -> SnapshotIndex:
        found = snapshot(bank(*tables))
        inventory = next_inventory(before, inventory_of(bank(*tables)))
        return replace(found, epoch=Epoch(epoch), inventory=inventory)

    def counted(index: SnapshotIndex, *epochs: int) -> list[int]:
        ours = Numbers(bank("accounts", "limits"))
        (number,) = ours.of_states.values()
        rows = [Row(number, Slot(0), encode(("limits", n)), Epoch(n), True, b"\x01") for n in epochs]
        rows.append(Row(number, Slot(0), encode(("accounts", 0)), Epoch(1), True, b"\x01"))
        (chains,) = states_of(chains_of(rows), ours.known(index)).values()
        return [chain.epoch for chain in chains if chain.key.startswith(encode(("limits", ""))[:-1])]

    both = at(None, 1, "accounts", "limits")
    dropped = at(both, 2, "accounts")
    back = at(at(dropped, 3, "accounts", "limits"), 4, "accounts", "limits")
    assert counted(both, 1) == [1]
    assert counted(dropped, 1) == [], "the first recovery of the code that has it again"
    assert counted(back, 1, 3, 4) == [3, 4], "and each after that"
