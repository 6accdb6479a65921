"""The guard of a caller's process: its functions connect to what the manifest allows, and to nothing else.

An audit hook of Python's sees each look-up of a name and each connection, whatever client makes it: one that a
service redirects to another host is refused there too.

Keeps: it is never lifted. Does not: see what a C library connects to by itself (libpq), or a process that a
function starts: a NetworkPolicy does. Say what is allowed (job/egress.py).
"""

import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

from flamestream.job.egress import Allowed, Port
from flamestream.model.call import NotAllowed

_CONNECTS: Final = {"socket.connect", "socket.sendto", "socket.sendmsg"}


def watch(entries: Sequence[str]) -> None:
    """From now on this process reaches nothing else: NotAllowed is raised where it would."""
    allowed, look_up = Allowed(entries), socket.getaddrinfo

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CONNECTS and isinstance(address := arguments[1], tuple):
            _require(allowed.reaches(str(address[0]), address[1]), f"{address[0]}:{address[1]}")
        elif event == "socket.getaddrinfo" and arguments[0]:
            host, port = _text(arguments[0]), _number(arguments[1])
            _require(allowed.asks(host, port), host if port is None else f"{host}:{port}")
        elif event == "socket.gethostbyname":
            _require(allowed.asks(_text(arguments[0]), None), _text(arguments[0]))

    def looked_up(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        found = look_up(host, port, *more, **named)
        if host:
            allowed.found(_text(host), _number(port), (str(each[4][0]) for each in found))
        return found

    socket.getaddrinfo = looked_up
    sys.addaudithook(heard)


def _require(true: bool, place: str) -> None:
    if not true:
        raise NotAllowed(f"{place} is not in spec.egress: add it there if calls are to reach it")


def _text(host: Any) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)


def _number(port: Any) -> Port:
    """A port; None of a service's name, or of none."""
    text = port.decode() if isinstance(port, bytes) else str(port)
    return int(text) if text.isdecimal() and int(text) else None
