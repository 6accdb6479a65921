"""The route to a coordinator that may be at several addresses: which of them is dialled next.

>>> route = Route("c-1.space.svc:7700,c.space.svc:7700")
>>> route.address
'c-1.space.svc:7700'
>>> for _ in range(OFTEN):
...     route.failed()
>>> route.address                           # nobody there: ask at the other one, now and then
'c.space.svc:7700'
>>> route.lead("c-2.space.svc:7700")        # who is there says where
>>> route.address
'c-2.space.svc:7700'

What is said on the way is said in the clear, so it leads to a neighbour at most: another name in the domain
of an address that was given. Who is there has to prove the job's token like any other.

Keeps: all but every eighth failed try goes to the first address, or to the one that was led to, so a leader
that is gone costs the others little. Does not: dial (dial.py).
"""

import re
from typing import Final

from flamestream.model.errors import Bug

OFTEN: Final = 7
"""Tries at one address before another is asked."""
LONGEST: Final = 300
_ADDRESS: Final = re.compile(r"([0-9A-Za-z_.:%\[\]-]{1,255}):([0-9]{1,5})")
_LAST_PORT: Final = 65535


class Route:
    """The addresses of one coordinator, "host:port[,host:port]"."""

    def __init__(self, addresses: str) -> None:
        """Raises Bug for an address that is none: whoever takes them from outside checks them."""
        self._given = tuple(addresses.split(","))
        self._domains = {_domain(address) for address in self._given}
        self._led = ""
        self._failures = 0

    @property
    def address(self) -> str:
        """The next to be dialled."""
        if self._led:
            return self._led
        turn, behind = divmod(self._failures, OFTEN + 1)
        others = self._given[1:]
        return others[turn % len(others)] if others and behind == OFTEN else self._given[0]

    def failed(self) -> None:
        """A try has come to nothing."""
        self._failures += 1
        if self._led and self._failures > OFTEN:
            self._led, self._failures = "", 0

    def lead(self, address: str) -> None:
        """A try has come to nothing, but for the word that the coordinator is there."""
        try:
            neighbour = _domain(address) in self._domains
        except Bug:
            neighbour = False
        if neighbour:
            self._led, self._failures = address, 0
        else:
            self.failed()

    def proved(self) -> None:
        """The coordinator is at `address`."""
        self._failures = 0


def split(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host may stand in brackets. Raises Bug: whoever takes it from
    outside checks it."""
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > _LAST_PORT:
        raise Bug(f"{address[:LONGEST]!r} is not an address host:port")
    return found[1].removeprefix("[").removesuffix("]"), int(found[2])


def _domain(address: str) -> str:
    return split(address)[0].partition(".")[2]
