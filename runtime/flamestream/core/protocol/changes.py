"""Changes: what becomes of a job's parts when another graph goes on from its snapshot, said before anything happens.

Does not: say whether it may (inventory.py).
"""

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from msgspec.structs import replace

from flamestream.core.protocol.inventory import listed, misfit, next_inventory
from flamestream.core.protocol.snapshot import Inventory, SnapshotIndex
from flamestream.model.payloads import shapes
from flamestream.model.state_names import BRACKETS, MARKS, tables_in

What = Literal["state", "class", "source", "call", "sink"]


class Change(NamedTuple):
    """The fate of a part, in words."""

    what: What
    name: str
    fate: str


def changes(index: SnapshotIndex, ours: Inventory, drop: Collection[str] = ()) -> Iterator[Change]:
    """The fate of each part of a graph with `ours`, and of the snapshot. `drop`: as for `misfit`."""
    yield from _of_state(index, ours, drop)
    theirs = index.inventory
    if theirs is None:
        return
    yield from _of_classes(theirs, ours)
    for name in (*ours.sources, *(name for name in theirs.sources if name not in ours.sources)):
        what: What = "call" if name.endswith(BRACKETS) else "source"
        comes = "comes, and begins with what it gives from then on" if what == "source" else "comes"
        goes = (
            "goes: it has to be drained first"
            if what == "source"
            else "goes, once none of its requests is left"
        )
        yield Change(
            what, name.removesuffix(BRACKETS), _fate(name, theirs.sources, ours.sources, comes, goes)
        )
    for sink in (*ours.sinks, *(name for name in theirs.sinks if name not in ours.sinks)):
        yield Change(
            "sink", sink, _fate(sink, theirs.sinks, ours.sinks, "comes", "goes, and keeps what it has")
        )


def way_back(index: SnapshotIndex, graph: str, ours: Inventory) -> str:
    """The reason why the graph of the snapshot could not go on from what one with `ours` and the identity
    `graph` commits behind it; "" if it could."""
    if index.inventory is None:
        return "it was written before operations had names"
    following = replace(index, graph=graph, inventory=next_inventory(index, ours))
    return misfit(following, index.graph, index.inventory)


def idle_drops(index: SnapshotIndex, drop: Collection[str]) -> list[str]:
    """Those names of `drop` that a snapshot has nothing of."""
    theirs = index.inventory
    known = set() if theirs is None else {name.removesuffix(BRACKETS) for name in theirs.sources}
    for each in listed(theirs).values():
        known |= {each.name, each.was, *tables_in(each.form)}
    return sorted({*drop} - known)


def _of_state(index: SnapshotIndex, ours: Inventory, drop: Collection[str]) -> Iterator[Change]:
    before = listed(index.inventory)
    for each in ours.operations:
        if each.form == MARKS:
            continue
        old = before.pop(each.number, None)
        if old is None:
            fate = "begins empty"
        elif old.version != each.version:
            fate = f"is kept, and migrated from version {old.version} to {each.version} key by key"
        else:
            fate = "is kept" if old.name == each.name else f"is kept; it was {old.name}"
        yield Change("state", each.name, fate)
        for table in sorted(set() if old is None else tables_in(old.form) - tables_in(each.form)):
            yield Change("state", table, _lost(table in drop))
    for gone in before.values():
        if gone.form != MARKS:
            named = {gone.name, gone.was}.intersection(drop)
            yield Change("state", gone.name, _lost(bool(named)))
    for name in idle_drops(index, drop):
        yield Change("state", name, "is named by upgrade.drop, and is not there")


def _lost(named: bool) -> str:
    return "is dropped" if named else "would be lost: it is refused"


def _of_classes(theirs: Inventory, ours: Inventory) -> Iterator[Change]:
    newest = {each.name: each for each in theirs.classes or ()}
    for now in ours.classes or ():
        if (old := newest.get(now.name)) is not None and old.tag != now.tag:
            yield from (Change("class", now.name, words) for words in shapes.changes({old.tag: old}, now))


def _fate(name: str, before: Collection[str], after: Collection[str], comes: str, goes: str) -> str:
    if name not in before:
        return comes
    return "stays" if name in after else goes
