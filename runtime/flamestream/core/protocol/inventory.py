"""Inventory: what a snapshot is of, by name, and whether another graph can go on from it.

    rows of a segment -- number -- name -- vertex of the graph that runs now

A number is made of a name (model/state_names.py), so segments that are kept stay valid whatever the graph
becomes. Rows that were written before operations had names have the place of theirs in the graph: an index
without an inventory fits that graph alone, and the next one says whose places those were.

Sources are found by name too: each front has the number that it has (known_fronts.py).

Keeps: no operation is given another one's state: where names do not tell which is whose, the difference is
said with what to do. Does not: read rows (stored_rows.py), or decide (the coordinator).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.protocol.snapshot import Inventory, SnapshotIndex
from flamestream.core.protocol.versions import all_classes, other_version, versioned
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName
from flamestream.model.payloads.older import classes
from flamestream.model.state_names import BRACKETS, MARKS, Operation, numbered_call, tables_in
from flamestream.model.time import END, START, FrontId


def inventory_of(
    graph: Graph, dead_letter: SinkName | None = None, fronts: Iterable[FrontSettings] = ()
) -> Inventory:
    """The inventory of a graph, as its workers know it. `fronts`: in the order of its sources."""
    fronts = tuple(fronts)
    sources = tuple(source_keys(graph).values())
    sinks = [SinkName(vertex.name) for vertex in graph.sinks if vertex.call is None]
    return Inventory(
        sources, tuple(sinks if dead_letter is None else [*sinks, dead_letter]), graph.operations,
        tuple(front.known_as for front in fronts), classes(),
        {front.known_as: front.run_length if front.timed else 0 for front in fronts},
    )  # fmt: skip


def alike(theirs: Inventory | None, ours: Inventory | None) -> bool:
    """Whether two processes have the same names, as far as both say them. Of classes one may have imported
    more by now."""
    if theirs is None or ours is None:
        return True
    one, other = (
        replace(
            each, classes=None, fronts=each.fronts if beside.fronts else (),
            runs=None if beside.runs is None else each.runs,
        )
        for each, beside in ((theirs, ours), (ours, theirs))
    )  # fmt: skip
    return one == other


def source_keys(graph: Graph) -> dict[str, str]:
    """The names that a snapshot finds the sources of a graph by, by those of now, in their order. A clock that
    ticks otherwise is another: its offsets would be other moments."""
    every = graph.clocks
    return {
        v.name: f"{v.name} every {every[v.name]}" if v.name in every else v.stored_as for v in graph.sources
    }


def next_inventory(
    previous: SnapshotIndex | None, ours: Inventory | None, known: Sequence[str] = ()
) -> Inventory | None:
    """The inventory of the snapshot behind `previous`, of a graph with `ours`. `known`: whose each front is;
    none: they go by the graph's order."""
    if ours is None:
        return None
    before = None if previous is None else previous.inventory
    runs = ours.runs if ours.runs is None or before is None else {**(before.runs or {}), **ours.runs}
    ours = replace(ours, fronts=tuple(known) or ours.fronts, classes=all_classes(previous, ours), runs=runs)
    if previous is not None and previous.inventory is None:
        first = previous.epoch + 1
        return replace(ours, operations=tuple(versioned(each, None, first) for each in ours.operations))
    stored = listed(before)
    # Not the epoch of the next snapshot: a batch whose epoch was aborted has rows of that, and is committed as
    # a later one.
    first = 0 if previous is None else previous.epoch + 1
    fresh = (
        versioned(
            replace(
                each,
                place=None,
                since=first,
                tables=_tables(each, stored.get(each.number), first),
            ),
            stored.get(each.number),
            first,
        )
        for each in ours.operations
    )
    # The name of now beside what the number has been: `was` may have given it another.
    return replace(
        ours,
        operations=tuple(
            each
            if (old := stored.get(each.number)) is None
            else replace(
                old,
                name=each.name,
                form=each.form,
                was=each.was,
                like=each.like,
                tables=each.tables,
                version=each.version,
                versions=each.versions,
            )
            for each in fresh
        ),
    )


def _tables(now: Operation, old: Operation | None, first: int) -> tuple[tuple[str, int], ...]:
    """The tables that came later than their state, each with the epoch from which on its rows count."""
    if old is None:
        return ()
    since = {**dict.fromkeys(tables_in(now.form) - tables_in(old.form), first), **dict(old.tables)}
    return tuple(sorted((table, epoch) for table, epoch in since.items() if table in tables_in(now.form)))


def listed(inventory: Inventory | None) -> dict[int, Operation]:
    """The operations of an inventory, by their numbers."""
    return {each.number: each for each in (inventory.operations if inventory is not None else ())}


def only_in(one: Inventory | None, other: Inventory | None) -> list[str]:
    """Names of operations whose state `one` has and `other` has not."""
    if one is None or other is None:
        return []
    known = listed(other)
    gone = [each.name for each in one.operations if each.number not in known and each.form != MARKS]
    return gone + [
        table
        for each in one.operations
        if each.number in known
        for table in sorted(tables_in(each.form) - tables_in(known[each.number].form))
    ]


def without(index: SnapshotIndex, names: Collection[str]) -> SnapshotIndex:
    """The snapshot, with these operations' state forgotten: rows of theirs count no more."""
    if index.inventory is None or not names:
        return index
    kept = tuple(each for each in index.inventory.operations if each.name not in names)
    return replace(index, inventory=replace(index.inventory, operations=kept))


def misfit(index: SnapshotIndex, graph: str, ours: Inventory | None, drop: Collection[str] = ()) -> str:
    """The reason why a graph cannot go on from a snapshot, and what to do; "" if it can. `graph`: its
    identity; `drop`: names of operations whose state may go."""
    if index.inventory is None and index.graph == graph:
        return ""
    if ours is None:
        return (
            "its rows have the names of operations, which this release's workers do not know: "
            "start a newer one"
        )
    if index.inventory is None:
        return (
            "it was written by another graph, before state had names: start the graph that wrote it once "
            "more, until it has committed an epoch, and change it then. "
            f"It has {index.graph!r}, this job has {graph!r}"
        )
    theirs = index.inventory
    if reason := _other_sources(index, graph, theirs, ours):
        return reason
    gone = sorted(set(theirs.sinks) - set(ours.sinks))
    if gone and index.held:
        return f"it holds output for sink {gone[0]!r}, which this graph has not: let the job drain, then remove it"
    return "; ".join(_differences(index, graph, ours, drop))


def other_order(ours: Inventory | None, known: Sequence[str]) -> str:
    """The reason why who numbers fronts by the graph's order cannot go on with a job; "" if it can. `known`:
    whose each front is."""
    if ours is None or not known or ours.fronts == tuple(known):
        return ""
    return (
        f"the job's fronts are of the sources {_listed(list(known))}, in this order, and the graph has "
        f"{_listed(ours.fronts)}: sources came, went or moved, and only a stream (`flamestream run`, workers in a "
        "cluster) can go on from that"
    )


def known_fronts(index: SnapshotIndex) -> tuple[KnownFront, ...]:
    """The fronts of a job that begins with this snapshot; none if it says no names."""
    if (inventory := index.inventory) is None:
        return ()
    begins = {position.front: position.begins for position in index.fronts}
    fronts = (
        KnownFront(name, begins.get(FrontId(number), START), away=name not in inventory.sources)
        for number, name in enumerate(inventory.fronts)
    )
    return timed_by(inventory, fronts)


def timed_by(
    ours: Inventory | None, fronts: Iterable[KnownFront], *, kept: bool = False
) -> tuple[KnownFront, ...]:
    """The fronts, with how a graph makes the times of those that have not begun; of the others too, unless theirs
    are `kept`."""
    runs = (ours.runs if ours is not None else None) or {}
    return tuple(
        front if kept and front.begins is not None else replace(front, runs=runs.get(front.name, front.runs))
        for front in fronts
    )


def leaving(one: Inventory | None, other: Inventory | None) -> list[str]:
    """Names of sources that `one` has and `other` has not."""
    if one is None or other is None:
        return []
    return [name for name in one.sources if name not in other.sources]


def _other_sources(index: SnapshotIndex, graph: str, theirs: Inventory, ours: Inventory) -> str:
    """The reason why a graph cannot go on with its sources; "" if it can."""
    if not theirs.fronts or not ours.fronts:
        # Of one graph older releases gave productions other names.
        return "" if theirs.sources == ours.sources or index.graph == graph else (
            f"it has the sources {_listed(theirs.sources)}, and this graph {_listed(ours.sources)}, and was "
            "written before sources were found by name: start the graph that wrote it once more, until it has "
            "committed an epoch, and change it then"
        )  # fmt: skip
    before, now = Counter(theirs.fronts), Counter(ours.fronts)
    if reason := _other_fronts(before, theirs.runs or {}, ours):
        return reason
    for name in now:
        if before[name] and numbered_call(name) and index.graph != graph:
            return (
                f"{name} is one of several chains of functions that are called alike, and the graph is another, so "
                "which is which is not known: let the job drain, and give each a function of its own, with a name"
            )
    new = [name for name in now if not before[name]]
    if new and index.cut == END:
        return (
            f"all of its input has ended, and source {new[0]!r} would begin behind that: let the job complete, "
            "and read the rest in another job"
        )
    calls = [name for name in leaving(theirs, ours) if name.endswith(BRACKETS)]
    if calls and index.requests:
        return (
            f"it holds requests of calls, and call {calls[0]} is gone: let the job drain, then remove it; if it "
            "is called otherwise now, say was= there"
        )
    return ""


def other_fronts(known: Sequence[KnownFront], ours: Inventory | None) -> str:
    """The reason why a graph cannot go on with a job that has no snapshot yet; "" if it can."""
    if ours is None:
        return ""
    begun = [front for front in known if front.begins is not None]
    runs = {front.name: front.runs for front in begun if front.runs is not None}
    return _other_fronts(Counter(front.name for front in begun), runs, ours)


def _other_fronts(before: Mapping[str, int], runs: Mapping[str, int], ours: Inventory) -> str:
    """The reason why its sources would be read otherwise than they were, or get other times; "" if they would
    not. `before`: how many fronts each had; `runs`: records that entered at one time."""
    for name, count in Counter(ours.fronts).items():
        had, now = before.get(name, count), (ours.runs or {}).get(name)
        if had != count:
            return (
                f"source {name!r} had {had} fronts, and has {count} now: each has partitions of its own, and "
                f"would not know how far the others had read. Set it back to {had}"
            )
        if now is not None and runs.get(name, now) != now:
            return (
                f"source {name!r} got its times {_stamps(runs[name])}, and gets them {_stamps(now)} now: a "
                "replay would not know what was delivered. Set its settings back (`follow`, `rate`, ...); or let "
                "the job drain, and give the source another name: that one begins at its start"
            )
    return ""


def _stamps(run: int) -> str:
    return f"by the number of a record, {run} at once" if run else "by its journal"


def _differences(index: SnapshotIndex, graph: str, ours: Inventory, drop: Collection[str]) -> Iterator[str]:
    now, before = listed(ours), listed(index.inventory)
    fresh = [each.name for number, each in now.items() if number not in before and each.form != MARKS]
    like = {each.like: each for each in before.values() if each.like}
    for number, old in before.items():
        if (new := now.get(number)) is None:
            if old.form != MARKS and not {old.name, old.was}.intersection(drop):
                yield _removed(old, fresh)
        elif tables := tables_in(old.form):
            yield from map(_removed_table, sorted(tables - tables_in(new.form) - {*drop}))
        elif new.form != old.form:
            yield (
                f"operation {new.name!r} had a state of the form {old.form}, and is {new.form} now: give "
                "it another name=, and drop the old state with "
                f"upgrade: {{drop: [{_quoted(old.was or old.name)}]}} in the spec"
            )
        elif problem := other_version(old, new):
            yield problem
        elif (was := old if new.like == old.like else like.get(new.like, old)) is not old:
            yield _alike(new, f"is made as {was.name!r} was", was)
        elif new.numbered and index.graph != graph:
            yield _alike(new, "the graph is another", old)


def _alike(new: Operation, how: str, was: Operation) -> str:
    return (
        f"operation {new.name!r} is one of several that are called alike, and {how}, so which is which is not "
        f'known: give each a name, as in name="...", was={was.name!r}'
    )


def _removed(old: Operation, fresh: Sequence[str]) -> str:
    renamed = f" (there is no state for {_listed(fresh)})" if fresh else ""
    known, before = old.was or old.name, f", which was {old.was!r}" if old.was else ""
    return (
        f"it has state of operation {old.name!r}{before}, and this graph has no such operation: if it is "
        f"called otherwise now{renamed}, say was={known!r} there; if it is to be forgotten, say "
        f"upgrade: {{drop: [{_quoted(known)}]}} in the spec"
    )


def _removed_table(name: str) -> str:
    return (
        f"it has rows of table {name!r}, and this graph has no such table: if it is called otherwise now, say "
        f"was={name!r} there; if its rows are to be forgotten, say upgrade: {{drop: [{_quoted(name)}]}} in the spec"
    )


def _quoted(name: str) -> str:
    """A name as YAML takes it."""
    return name if re.fullmatch(r"[\w.-]+", name) else "'" + name.replace("'", "''") + "'"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
