"""Versions: of which version a snapshot's rows are, and which shapes the classes in them have had.

An index says from which epoch on an operation's rows are of which version (`Operation.versions`), and lists
each shape of a payload class that a stored value may have. Both only grow: a key that nobody touches keeps its
row, of whatever version that is.

Keeps: a row's version is known from its epoch alone. Does not: compare the rest of two graphs (inventory.py),
or read rows (stored_rows.py).
"""

from msgspec.structs import replace

from flamestream.core.protocol.snapshot import Inventory, SnapshotIndex
from flamestream.model.payloads.shapes import PayloadClass, unmarked_of
from flamestream.model.state_names import Operation


def versioned(each: Operation, old: Operation | None, first: int) -> Operation:
    """The operation as an index has it: rows of epoch `first` and later are of its version."""
    before = () if old is None else old.versions
    is_new = each.version != (1 if old is None else old.version)
    return replace(each, migrates=(), versions=(*before, (first, each.version)) if is_new else before)


def all_classes(previous: SnapshotIndex | None, ours: Inventory) -> tuple[PayloadClass, ...]:
    """The classes of the snapshot before, in which stored values may be, and those of now."""
    before: tuple[PayloadClass, ...] = ()
    now = ours.classes or ()
    if previous is not None:
        theirs = None if previous.inventory is None else previous.inventory.classes
        before = tuple(unmarked_of(now)) if theirs is None else theirs
    fresh = {shape.tag for shape in now}
    return (*(shape for shape in before if shape.tag not in fresh), *now)


def other_version(old: Operation, new: Operation) -> str:
    """The reason why a state of these versions cannot become that of now."""
    if old.version > new.version:
        return (
            f"the state of operation {new.name!r} is of version {old.version}, and this code makes version "
            f"{new.version}: there is no way back; start newer code, or a savepoint from before"
        )
    stored = {version for _, version in old.versions}
    if not old.versions or old.versions[0][0] > old.since or old.place is not None:
        stored.add(1)
    missing = [step for step in range(min(stored), new.version) if step not in new.migrates]
    if not missing:
        return ""
    return (
        f"the state of operation {new.name!r} has rows of version {missing[0]}, and is of version {new.version} "
        f"now: say migrate={{{missing[0]}: up}} there, with the function that makes version {missing[0] + 1} of "
        "it; a step stays in the code as long as the state lives"
    )
