"""The guard of a caller's process: its functions connect to what the manifest allows, and to nothing else.

An audit hook of Python's sees each look-up of a name and each connection, whatever client makes it: one that
a service redirects to another host is refused there too.

Keeps: it is never lifted. Does not: see what a C library looks up or connects to by itself (libpq, c-ares,
libuv), or a process that a function starts: a NetworkPolicy does. Say what is allowed (job/egress.py).
"""

import socket
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

from flamestream.job.egress import Allowed, NotAllowed, Port

_TO_AN_ADDRESS: Final = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getnameinfo": 0,
}
"""Which argument of an event it is."""
_OF_A_NAME: Final = {"socket.gethostbyname", "socket.gethostbyaddr"}


def watch(entries: Sequence[str]) -> None:
    """From now on this process reaches nothing else: NotAllowed is raised where it would."""
    allowed = Allowed(entries)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if (place := _TO_AN_ADDRESS.get(event)) is not None:
            if isinstance(address := arguments[place], tuple):  # else it is of this machine
                host, port = str(address[0]), address[1]
                _require(allowed.reaches(host, port) or allowed.asks(host, port), f"{host}:{port}")
        elif event == "socket.getaddrinfo" and arguments[0]:
            host, port = _text(arguments[0]), _number(arguments[1])
            _require(allowed.asks(host, port), host if port is None else f"{host}:{port}")
        elif event in _OF_A_NAME:
            _require(allowed.asks(_text(arguments[0]), None), _text(arguments[0]))

    def learns(look_up: Callable[..., Any], addresses: Callable[[Any], list[str]]) -> Any:
        @wraps(look_up)
        def looked_up(host: Any, *more: Any, **named: Any) -> Any:
            found = look_up(host, *more, **named)
            if host:
                port = more[0] if more else named.get("port")
                allowed.found(_text(host), _number(port), addresses(found))
            return found

        return looked_up

    socket.getaddrinfo = learns(socket.getaddrinfo, lambda found: [str(each[4][0]) for each in found])
    socket.gethostbyname = learns(socket.gethostbyname, lambda found: [found])
    socket.gethostbyname_ex = learns(socket.gethostbyname_ex, lambda found: found[2])
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
