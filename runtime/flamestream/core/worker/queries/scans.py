"""Scans: a page of keys with their states, all of one time.

A state's keys are put in order when somebody first asks for a page of them, a few a pass, so that no pass is held up;
then pages cost what they give. At a look the page is read: so what is given is of one cut, and lacks none of its keys.

Keeps: few scans at once. Does not: know when to look (gateway.py).
"""

from collections.abc import Mapping
from typing import Final

from flamestream.core.dataflow.parts import States
from flamestream.core.protocol.queries import MOST_BYTES, Scan, Seen
from flamestream.model.ids import WorkerId
from flamestream.model.time import Time

MOST_SCANS: Final = 8
"""Scans of one worker at once."""
AT_ONCE: Final = 256
"""Keys that are put in order in one pass."""
Name = tuple[WorkerId, int]
"""A gateway, and the number that a query has there."""


class _Page:
    """A scan, and the state that it is of."""

    def __init__(self, scan: Scan, states: States) -> None:
        self._scan, self._states = scan, states

    def go_on(self) -> bool:
        """Put some more keys in order. Whether some are left."""
        return self._states.order(AT_ONCE)

    def answer(self, number: int, certain: Time, minimal: Time) -> Seen:
        """The states at minimal time, of the least keys behind where the scan begins."""
        while self.go_on():
            pass
        scan, upto, more = self._scan, self._scan.after, True
        keys, states, size = list[bytes](), list[bytes | None](), 0
        while more and len(keys) < scan.limit:
            some, more = self._states.page(upto, scan.limit - len(keys), scan.matching)
            for key, state in zip(some, self._states.states_at(some, minimal), strict=True):
                upto = key
                if state is None:
                    continue  # it came later
                size += len(state) + len(key)
                if size > MOST_BYTES:
                    if not keys:
                        refused = (
                            f"the state of one key is more than {MOST_BYTES >> 20} MiB: ask for it alone"
                        )
                        return Seen(number, certain, [], refused)
                    return Seen(number, certain, states, keys=keys, upto=keys[-1])
                keys.append(key)
                states.append(state)
        return Seen(number, certain, states, keys=keys, upto=upto if more else b"")


class Scans:
    """The scans of one worker."""

    def __init__(self, states: Mapping[int, States]) -> None:
        self._states = states
        self._ordering: dict[Name, _Page] = {}
        self._ordered: dict[Name, _Page] = {}

    @property
    def walking(self) -> bool:
        """Whether keys are left to be put in order."""
        return bool(self._ordering)

    def begin(self, name: Name, scan: Scan) -> bool:
        """Begin with it. False if there are too many scans."""
        if len(self._ordering) + len(self._ordered) == MOST_SCANS:
            return False
        self._ordering[name] = _Page(scan, self._states[scan.vertex])
        return True

    def go_on(self) -> Name | None:
        """Put some keys of the oldest in order. Its name, if it is through."""
        name = next(iter(self._ordering), None)
        if name is None or self._ordering[name].go_on():
            return None
        self._ordered[name] = self._ordering.pop(name)
        return name

    def answer(self, name: Name, certain: Time, minimal: Time) -> Seen | None:
        """The answer of one that is through; None if it was never begun."""
        found = self._ordered.get(name)
        if found is None:
            return None
        seen = found.answer(name[1], certain, minimal)
        self.end(name)
        return seen

    def end(self, name: Name) -> None:
        """Nobody waits for it."""
        for scans in (self._ordering, self._ordered):
            scans.pop(name, None)

    def end_all(self) -> None:
        """The attempt is over."""
        for name in [*self._ordering, *self._ordered]:
            self.end(name)
