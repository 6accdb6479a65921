"""History: what was seen of a stream system from outside. Items entered, results left, it crashed and
recovered, in one order of places (lines of a file, say).

A key is whatever no item of another key has an influence on. Items of one partition enter a run in their
order; how the partitions of a key were merged is not known.

>>> seen = History((Entered(1, "k", "p", "a"), Left(2, "k", "out", "a"), Entered(3, "j", "p", "b")), ended=True)
>>> [(one.key, len(one.items), len(one.outputs)) for one in by_key(seen)]
[('k', 1, 1), ('j', 1, 0)]
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Entered:
    """An item came in."""

    place: int
    key: Hashable
    partition: Hashable
    """Whose order it keeps."""
    value: Any


@dataclass(frozen=True, slots=True)
class Left:
    """A result came out."""

    place: int
    key: Hashable
    to: Hashable
    """Where it came out. Results of one place there are in order."""
    value: Hashable


@dataclass(frozen=True, slots=True)
class Crashed:
    """Something of the system failed. No definition asks for it; reasons and repeats do."""

    place: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The system went on after a failure."""

    place: int


Event = Entered | Left | Crashed | Recovered


@dataclass(frozen=True, slots=True)
class History:
    """Events in the order in which they were seen."""

    events: Sequence[Event]
    ended: bool
    """All that had to come out has: what is missing behind the last result is lost, and not under way."""


@dataclass(frozen=True, slots=True)
class OneKey:
    """The history of one key."""

    key: Hashable
    ended: bool
    items: list[Entered] = field(default_factory=list)
    outputs: list[Left] = field(default_factory=list)


def by_key(history: History) -> list[OneKey]:
    """A history for each key, in the order of their first events."""
    found: dict[Hashable, OneKey] = {}
    for event in history.events:
        if isinstance(event, Entered | Left):
            one = found.get(event.key)
            if one is None:
                one = found[event.key] = OneKey(event.key, history.ended)
            if isinstance(event, Entered):
                one.items.append(event)
            else:
                one.outputs.append(event)
    return list(found.values())


def crashes(history: History) -> list[int]:
    """The places at which something failed."""
    return [event.place for event in history.events if isinstance(event, Crashed)]
