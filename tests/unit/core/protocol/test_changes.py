"""Changes: what a plan of an upgrade says of each part, before anything happens."""

from functools import partial
from typing import Any

from msgspec.structs import replace

from flamestream.core.protocol.changes import Change, changes, idle_drops, way_back
from flamestream.core.protocol.inventory import inventory_of, next_inventory
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Epoch
from flamestream.model.payloads.shapes import PayloadClass
from flamestream.model.time import Time


def _same(number: int) -> int:
    return number


def _greater(one: int, other: int) -> int:
    return max(one, other)


def graph(*names: str, source: str = "clicks", sink: str = "out", version: int = 1, was: str = "") -> Graph:
    made = Graph("g")
    stream = made.source(source)
    for name in names:
        migrate = dict.fromkeys(range(1, version), abs)
        reduced: Any = partial(
            stream.reduce,
            key=_same,
            initial=int,
            combine=_greater,
            name=name,
            version=version,
            migrate=migrate,
        )
        stream = reduced(was=was) if was else reduced()
    stream.sink(sink)
    return made.validated()


def index(of: Graph) -> SnapshotIndex:
    return SnapshotIndex(
        job="j", graph=of.identity, python="3.11", slots=4, epoch=Epoch(3), fence=NO_FENCE, cut=Time(9), segments=(),
        fronts=(), outputs=(), inventory=next_inventory(None, inventory_of(of)),
    )  # fmt: skip


def said(old: Graph, new: Graph, drop: tuple[str, ...] = ()) -> dict[tuple[str, str], str]:
    return {(what, name): fate for what, name, fate in changes(index(old), inventory_of(new), drop)}


def test_state_is_kept_begins_empty_is_dropped_or_would_be_lost() -> None:
    found = said(graph("a", "b", "c"), graph("a", "d"), ("b",))
    assert found[("state", "a")] == "is kept"
    assert found[("state", "d")] == "begins empty"
    assert found[("state", "b")] == "is dropped"
    assert "refused" in found[("state", "c")]


def bank(*tables: str) -> Graph:
    made = Graph("g")
    first, *_ = [made.table(name, initial=int) for name in tables]
    made.source("clicks").upsert(first, key=_same).committed.sink("out")
    return made.validated()


def test_a_table_that_goes_is_named_and_so_is_a_name_that_nothing_has() -> None:
    found = said(bank("a", "b", "c"), bank("a"), ("b", "d"))
    assert found[("state", "tables")] == "is kept" and found[("state", "b")] == "is dropped"
    assert "refused" in found[("state", "c")]
    assert found[("state", "d")] == "is named by upgrade.drop, and is not there"


def test_a_source_may_be_dropped_by_its_name_too() -> None:
    assert idle_drops(index(graph("sums")), ["clicks", "sums", "views"]) == ["views"]


def test_a_state_of_another_version_is_migrated_and_one_of_another_name_was_that() -> None:
    assert "from version 1 to 2" in said(graph("a"), graph("a", version=2))[("state", "a")]
    assert said(graph("a"), graph("b", was="a"))[("state", "b")] == "is kept; it was a"


def test_sources_and_sinks_come_and_go() -> None:
    found = said(graph("a"), graph("a", source="views", sink="other"))
    assert found[("source", "views")].startswith("comes") and "drained" in found[("source", "clicks")]
    assert found[("sink", "other")] == "comes" and found[("sink", "out")].startswith("goes")


def test_a_class_with_other_fields_says_which() -> None:
    one = PayloadClass("shop:Visit", ("user: str", "hits: int"))
    other = PayloadClass("shop:Visit", ("user: str", "last: str | None"), ("last",))
    old, ours = index(graph("a")), inventory_of(graph("a"))
    assert old.inventory is not None
    old = replace(old, inventory=replace(old.inventory, classes=(one,)))
    [told] = [each for each in changes(old, replace(ours, classes=(other,))) if each.what == "class"]
    assert told == Change("class", "shop:Visit", told.fate)
    assert "without hits" in told.fate and "with last" in told.fate


def test_there_is_a_way_back_unless_the_old_graph_cannot_read_what_the_new_one_saves() -> None:
    old, same, more = graph("a"), graph("a", sink="other"), graph("a", "b")
    assert way_back(index(old), same.identity, inventory_of(same)) == ""
    assert "'b'" in way_back(index(old), more.identity, inventory_of(more))
