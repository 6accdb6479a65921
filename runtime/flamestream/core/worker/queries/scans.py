"""Scans: the keys that somebody looks for, found a few a pass, so that no pass is held up.

First all keys are walked through while the state changes; then, at a look, those that have come since, which are few.
So what is given is of one cut, and lacks none of its keys.

Keeps: few scans at once, each with as many keys as its answer has. Does not: know when to look (gateway.py).
"""

from collections.abc import Mapping
from typing import Final

from flamestream.core.dataflow.parts import States
from flamestream.core.protocol.queries import MOST_BYTES, Scan, Seen
from flamestream.model import payload as codec
from flamestream.model.ids import WorkerId
from flamestream.model.time import Time

MOST_SCANS: Final = 8
"""Scans that one worker walks for."""
AT_ONCE: Final = 1024
"""Keys that are looked at in one pass."""
Name = tuple[WorkerId, int]
"""A gateway, and the number that a query has there."""


def state_of(states: States, key: bytes, minimal: Time) -> bytes | None:
    """The state of a key at minimal time, encoded; None: it has none."""
    try:
        return codec.encode(states.state_at(key, minimal))
    except KeyError:
        return None


class _Walked:
    """A scan, and what was found for it."""

    def __init__(self, scan: Scan, states: States) -> None:
        self.scan, self._states = scan, states
        self._walk = states.walk(scan.matching)
        self._found: list[bytes] = []
        self._upto = b""
        """Greater keys are not kept."""

    def go_on(self) -> bool:
        """Look at some more keys. Whether some are left."""
        some, left = self._walk.some(AT_ONCE)
        after, upto = self.scan.after, self._upto
        self._found += [key for key in some if key > after and (not upto or key <= upto)]
        if not left or len(self._found) > 2 * self.scan.limit:
            self._found.sort()
            if len(self._found) > self.scan.limit:
                self._upto = self._found[self.scan.limit - 1]
                del self._found[self.scan.limit :]
        return left

    def answer(self, number: int, certain: Time, minimal: Time) -> Seen:
        """The states at minimal time, of all keys that there are."""
        while self.go_on():
            pass
        keys, states, size = list[bytes](), list[bytes | None](), 0
        for key in self._found:
            if (state := state_of(self._states, key, minimal)) is None:
                continue  # it came later
            size += len(state) + len(key)
            if size > MOST_BYTES:
                if not keys:
                    refused = f"the state of one key is more than {MOST_BYTES >> 20} MiB: ask for it alone"
                    return Seen(number, certain, [], refused)
                return Seen(number, certain, states, keys=keys, upto=keys[-1])
            keys.append(key)
            states.append(state)
        return Seen(number, certain, states, keys=keys, upto=self._upto)

    def close(self) -> None:
        """Let go of the walk."""
        self._walk.close()


class Scans:
    """The scans that one worker walks for."""

    def __init__(self, states: Mapping[int, States]) -> None:
        self._states = states
        self._walking: dict[Name, _Walked] = {}
        self._walked: dict[Name, _Walked] = {}

    @property
    def walking(self) -> bool:
        """Whether keys are left to be looked at."""
        return bool(self._walking)

    def begin(self, name: Name, scan: Scan) -> bool:
        """Look for its keys. False if there are too many scans."""
        if len(self._walking) + len(self._walked) == MOST_SCANS:
            return False
        self._walking[name] = _Walked(scan, self._states[scan.vertex])
        return True

    def go_on(self) -> Name | None:
        """Look at some keys of the oldest. Its name, if it is through."""
        name = next(iter(self._walking), None)
        if name is None or self._walking[name].go_on():
            return None
        self._walked[name] = self._walking.pop(name)
        return name

    def answer(self, name: Name, certain: Time, minimal: Time) -> Seen | None:
        """The answer of one that is through; None if it was never begun."""
        found = self._walked.get(name)
        if found is None:
            return None
        seen = found.answer(name[1], certain, minimal)
        self.end(name)
        return seen

    def end(self, name: Name) -> None:
        """Nobody waits for it."""
        for scans in (self._walking, self._walked):
            if (found := scans.pop(name, None)) is not None:
                found.close()

    def end_all(self) -> None:
        """The attempt is over."""
        for name in [*self._walking, *self._walked]:
            self.end(name)
