"""Where names were found last: the name service may be on the very node that was just lost, just when everybody dials anew.

A name that was found once is dialled where it was then; every other try looks it up anew, and if nobody answers, what is known stands.

>>> lookup("127.0.0.1", 7001)[0][4]
('127.0.0.1', 7001)

Keeps: a moved server is found by the second try. Does not: dial, or choose among several addresses.
"""

import socket
from collections.abc import Sequence
from typing import Any, Final

Found = Sequence[tuple[Any, ...]]
MOST: Final = 256
_known: Final[dict[tuple[str, int], Found]] = {}


def lookup(host: str, port: int, *, anew: bool = True) -> Found:
    """As socket.getaddrinfo. Blocks if nothing is known, or if it is asked `anew`: for helper threads."""
    before = _known.get((host, port))
    if before is not None and not anew:
        return before
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        if before is None:
            raise
        return before
    if len(_known) < MOST:
        _known[(host, port)] = found
    return found
