"""Egress: the hosts and networks that functions of calls may connect to, where the manifest names them.

>>> allowed = Allowed(["api.example.com:443", "*.internal", "10.0.0.0/8"])
>>> allowed.asks("api.example.com", 443), allowed.asks("api.example.com", 80), allowed.asks("a.b.internal", 80)
(True, False, True)
>>> allowed.reaches("10.1.2.3", 5432), allowed.reaches("169.254.169.254", 80)
(True, False)
>>> allowed.found("api.example.com", 443, ["192.0.2.7"])
>>> allowed.reaches("192.0.2.7", 443), allowed.reaches("192.0.2.7", 80)
(True, False)

Whoever answers for an allowed name says which addresses it has. So a name leads neither to this machine nor
to what a cloud gives machines their secrets at; as an address, an entry can still name them.

>>> allowed.found("a.internal", 80, ["169.254.169.254"])
>>> allowed.reaches("169.254.169.254", 80)
False

Keeps: an address is allowed as such, or because an allowed name was found to have it. Does not: look at what
a process connects to (node/calls/egress.py).
"""

import re
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_ENTRY: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:./]+\]|[^:\s\[\]]+)(:(?P<port>\d{1,5}))?")
_NAME: Final = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]*[a-z][a-z0-9_-]*")
_SAID: Final = re.compile(r"[^\x00-\x2c/:-@\[-^`{-\x7f\s]+")
"""A name to look up: in ASCII letters, digits, dots, hyphens and underscores. Behind a NUL (!) the C library
reads nothing: of `169.254.169.254\\0.example.com` it would look up the address."""
_METADATA: Final = tuple(
    map(ip_network, ("fd00:ec2::/32", "fd20:ce::/32", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
"""Where clouds tell a machine its secrets, beside the link-local 169.254.169.254: AWS, GCP, Alibaba, Azure,
Oracle."""
_NAT64: Final = ip_network("64:ff9b::/96")
MOST_FOUND: Final = 10_000
"""Addresses of names that are known; the longest unused are looked up again."""
FORMS: Final = "HOST, HOST:PORT, *.DOMAIN, ADDRESS, NETWORK/BITS, [IPV6]:PORT and [IPV6/BITS]:PORT"
Port = int | None


class NotAllowed(Exception):
    """A call would reach what the manifest's `spec.egress` does not name. No other try could mend that."""


class Allowed:
    """Names and networks that calls may reach. Raises ValueError for an entry that is neither."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._names: list[tuple[str, Port]] = []
        self._networks: list[tuple[IPv4Network | IPv6Network, Port]] = []
        self._found: OrderedDict[tuple[str, Port], None] = OrderedDict()
        """Addresses that allowed names were found to have, the longest unused first."""
        for entry in entries:
            host, port = _parsed(entry)
            if isinstance(host, str):
                self._names.append((host, port))
            else:
                self._networks.append((host, port))

    def asks(self, host: str, port: Port) -> bool:
        """Whether a name may be looked up."""
        return self._port_of(host, port) is not None or self.reaches(host, port)

    def found(self, host: str, port: Port, addresses: Iterable[str]) -> None:
        """An allowed name has these addresses."""
        if (ports := self._port_of(host, port)) is not None:
            usual = [_plain(address) for address in addresses if _is_of_a_name(address, host)]
            for known in ((address, allowed) for address in usual for allowed in ports):
                self._found[known] = None
                self._found.move_to_end(known)
            while len(self._found) > MOST_FOUND:
                self._found.popitem(last=False)

    def _port_of(self, host: str, port: Port) -> list[Port] | None:
        """The ports that a name may be reached at (None: any); None if it may not."""
        if not _SAID.fullmatch(host):
            return None
        # names as resolvers take them: in any case, with the dot of the root or without
        ports = [
            allowed
            for name, allowed in self._names
            if fnmatchcase(host.lower().rstrip("."), name) and (None in (port, allowed) or port == allowed)
        ]
        return ports or None

    def reaches(self, address: str, port: Port) -> bool:
        """Whether an address may be connected to."""
        address = _plain(address)
        if (address, port) in self._found or (address, None) in self._found:
            return True
        try:
            there = ip_address(address)
        except ValueError:
            return False
        return any(there in network and allowed in (None, port) for network, allowed in self._networks)


def _is_of_a_name(address: str, host: str) -> bool:
    """Whether a name may lead to an address: what is at others must be named as an address."""
    try:
        there = _behind(ip_address(address.partition("%")[0]))
    except ValueError:
        return True  # none: nobody can connect to it
    if there.is_loopback:
        return host.lower().rstrip(".").rpartition(".")[2] == "localhost"
    refused = there.is_link_local or there.is_unspecified or there.is_multicast
    return not refused and not any(there in network for network in _METADATA)


def _behind(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that one of IPv6 leads to, if it does."""
    if isinstance(address, IPv4Address):
        return address
    nat64 = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
    return nat64 or address.ipv4_mapped or address.sixtofour or address


def _plain(address: str) -> str:
    """An address in one form, without its zone; what is none, as it is."""
    try:
        there = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(there, "ipv4_mapped", None) or there)


def _parsed(entry: str) -> tuple[str | IPv4Network | IPv6Network, Port]:
    """The name or network of an entry, and its port."""
    with suppress(ValueError):
        return ip_network(entry), None  # also of IPv6, whose colons lead to no port
    found = _ENTRY.fullmatch(entry)
    port = int(found["port"]) if found and found["port"] else None
    if found is not None and (port is None or 0 < port < 1 << 16):
        host = found["host"].lower().removesuffix(".")
        if _NAME.fullmatch(host):
            return host, port
        with suppress(ValueError):
            return ip_network(host.strip("[]")), port
    raise ValueError(f"{entry!r} is none of {FORMS}; of a network all bits behind the first BITS are 0")
