"""Where names were found last: the name service may be on the very node that was just lost, just when
everybody dials anew.

A name that was found once is dialled where it was then; every other try looks it up anew, and if nobody
answers, what is known stands.

>>> lookup("127.0.0.1", 7001)[0][4]
('127.0.0.1', 7001)

Keeps: a moved server is found by the second try; a name service that does not answer holds up nobody but
those who wait for the name. Does not: dial, or choose among several addresses.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from flamestream.ports import Reactor

Found = Sequence[tuple[int, int, int, str, tuple[object, ...]]]
"""The answer of socket.getaddrinfo: family, kind, protocol, canonical name, address."""
Done = Callable[[Found | Exception], None]
MOST: Final = 256
MOST_WAIT: Final = 256
"""Callers that may wait for one name. Who is not among them tries again by its own clock."""
_known: Final[dict[tuple[str, int], Found]] = {}


def lookup(host: str, port: int, *, anew: bool = True) -> Found:
    """The answer of socket.getaddrinfo. Blocks if nothing is known, or if it is asked `anew`: for helper
    threads."""
    before = _known.get((host, port))
    if before is not None and not anew:
        return before
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        if before is None:
            raise
        return before
    if before is not None or len(_known) < MOST:
        _known[(host, port)] = found
    return found


_lock: Final = threading.Lock()
_waiting: Final[dict[tuple[str, int], list[tuple[Reactor, Done]]]] = {}
"""The callers that wait for each name that is being looked up."""


def ask(reactor: Reactor, host: str, port: int, done: Done, *, anew: bool = True) -> None:
    """`done`, in the reactor's loop, gets what `lookup` gives or raises.

    One thread a name, and never one of the reactor's few helpers: a resolver whose server is gone holds on
    for half a minute, and who dials asks again every two seconds. All helpers would wait for it, and behind
    them the uploads and reads of a recovery.
    """
    before = _known.get((host, port))
    if before is not None and not anew:
        reactor.soon(lambda: done(before))
        return
    with _lock:
        waiting = _waiting.setdefault((host, port), [])
        if len(waiting) < MOST_WAIT:
            waiting.append((reactor, done))
        if len(waiting) > 1:
            return
    # A daemon: a resolver that hangs must not hold up the end of the process.
    threading.Thread(target=_answer, args=(host, port), name=f"lookup-{host}", daemon=True).start()


def _answer(host: str, port: int) -> None:
    result: Found | Exception
    try:
        result = lookup(host, port)
    except (OSError, UnicodeError) as error:
        result = error
    # Taken out under the lock: whoever asks behind this finds nobody waiting, and begins a look-up of its
    # own.
    with _lock:
        waiting = _waiting.pop((host, port))
    for reactor, done in waiting:
        with suppress(OSError):  # its loop has ended
            reactor.soon(lambda done=done: done(result))  # type: ignore[misc]  # a call without arguments
