"""Admission: who is inside where strangers may come, and who gives way when there is no room.

A port that anybody can reach must not be held by whoever came first. So a newcomer gets the place of a guest
that has nothing under way: the oldest one of the address with the most guests, unless the newcomer's own
address has more. Where everybody has something under way, a guest gives way only to an address that will
still have fewer.

>>> inside = Admission[str](most=3)
>>> for guest in ("a1", "a2", "b1"):
...     inside.enter(guest, peer=guest[0])
>>> inside.gives_way("c", idle=lambda guest: True)
'a1'
>>> inside.gives_way("c", idle=lambda guest: guest == "b1")
'b1'
>>> inside.gives_way("c", idle=lambda guest: False)
'a1'
>>> inside.gives_way("a", idle=lambda guest: guest == "b1")     # or one address would have it all

Keeps: whoever has fewer guests than others finds room. Does not: close anybody, or refuse while there is room
(the owner does).
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

G = TypeVar("G", bound=Hashable)


class Admission(Generic[G]):
    """The guests of one port, the one that came or was renewed longest ago first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._guests: dict[G, str] = {}

    def __iter__(self) -> Iterator[G]:
        return iter(self._guests)

    @property
    def full(self) -> bool:
        """Whether somebody must give way before the next may enter."""
        return len(self._guests) >= self._most

    def enter(self, guest: G, peer: str) -> None:
        """Let `guest` in. `peer` is what `peer_of` says of its address."""
        self._guests[guest] = peer

    def leave(self, guest: G) -> None:
        """Forget `guest`, who is gone. Unknown ones are ignored."""
        self._guests.pop(guest, None)

    def peer(self, guest: G) -> str:
        """The peer that `guest` entered as."""
        return self._guests[guest]

    def renew(self, guest: G) -> None:
        """Count `guest` as the newest: it has done what guests come for."""
        self._guests[guest] = self._guests.pop(guest)

    def gives_way(self, peer: str, idle: Callable[[G], bool]) -> G | None:
        """The guest that must go for somebody from `peer`; None: the newcomer must."""
        many = Counter(self._guests.values())
        found = [
            guest for guest, theirs in self._guests.items() if many[theirs] >= many[peer] and idle(guest)
        ]
        found = found or [guest for guest, theirs in self._guests.items() if many[theirs] > many[peer] + 1]
        # Of equals `max` takes the first, which is the oldest.
        return max(found, key=lambda guest: many[self._guests[guest]], default=None)


def peer_of(address: object) -> str:
    """The part of an address that counts as one peer: of IPv6 the first half, since a host has as many of the
    second as it likes."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    try:
        known = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a local socket has none
        return host
    if isinstance(known, ipaddress.IPv4Address):
        return host
    # A client of IPv4 comes to a listener of IPv6 as ::ffff:1.2.3.4, and the first half of that is the same
    # for all. 19 characters are the first four groups of the long form.
    return str(known.ipv4_mapped or known.exploded[:19])
