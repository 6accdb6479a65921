"""Key order: the keys of a state, least first, for those who ask for a page of them.

It is made when somebody first asks, a few keys at a time while the state changes, and kept from then on: so a page
costs what it gives, and a key that comes or goes costs a search.

>>> from flamestream.model.payloads.codec import encode
>>> order = KeyOrder({encode(key): None for key in ("bob", "ann", "anna", 7)})
>>> while order.go_on(2): pass
>>> order.page(b"", 9, Matching(b"", "an"))
([b'\\xa3ann', b'\\xa4anna'], False)
>>> order.page(encode("ann"), 1, Matching(b""))
([b'\\xa3bob'], True)

Keeps: once nothing is left to be put in order, all keys that there are, and no others. Does not: know what a key has.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import Final

from flamestream.core.protocol.matching import fits, least
from flamestream.core.protocol.queries import Matching

MOST: Final = 512
"""Keys of a run: so many are moved at most when one comes in between."""


class KeyOrder:
    """The order of one state in Python: runs of keys, none of them long."""

    def __init__(self, keys: Collection[bytes]) -> None:
        self._keys, self._waiting = keys, list(keys)
        self._runs: list[list[bytes]] = [[]]
        self._firsts: list[bytes] = [b""]
        """From which key on each run has them."""

    def go_on(self, count: int) -> bool:
        """Put about so many more keys in order. Whether some are left."""
        some, self._waiting = self._waiting[-count:], self._waiting[:-count]
        for key in some:
            if key in self._keys:  # it may have gone since
                self.add(key)
        return bool(self._waiting)

    def add(self, key: bytes) -> None:
        """A key has come, or is known already."""
        at = bisect_right(self._firsts, key) - 1
        run = self._runs[at]
        place = bisect_left(run, key)
        if place == len(run) or run[place] != key:
            run.insert(place, key)
        if len(run) > MOST:
            half = len(run) // 2
            self._runs[at : at + 1] = [run[:half], run[half:]]
            self._firsts.insert(at + 1, run[half])

    def remove(self, key: bytes) -> None:
        """A key has gone, whether it is in order yet or not."""
        run = self._runs[at := bisect_right(self._firsts, key) - 1]
        place = bisect_left(run, key)
        if place < len(run) and run[place] == key:
            del run[place]
        if not run and at:
            del self._runs[at], self._firsts[at]

    def page(self, after: bytes, count: int, matching: Matching) -> tuple[list[bytes], bool]:
        """The least keys behind `after` that are meant, no more than `count`, and whether there are more."""
        found, begin = list[bytes](), least(matching, after)
        while begin is not None:
            key = b""
            for key in self._from(begin):
                if not fits(matching, key):
                    break
                if key > after:
                    if len(found) == count:
                        return found, True
                    found.append(key)
            else:
                break
            # (!) What is not meant is passed over at once: else a page of a few would walk through all keys.
            begin = least(matching, key)
        return found, False

    def _from(self, key: bytes) -> Iterator[bytes]:
        """All from `key` on."""
        at = bisect_right(self._firsts, key) - 1
        yield from self._runs[at][bisect_left(self._runs[at], key) :]
        for run in self._runs[at + 1 :]:
            yield from run
