"""Objects that nobody needs any more, on their way out of the store: gathered for a moment, and removed by
one request.

Where epochs are short a request for each object would cost as much as the epoch.

Keeps: nothing is removed while somebody holds deletions (a snapshot is being copied). Does not: choose what
goes (core/coordinator/epochs.py), or remember it: what is left when this process ends, or is more than
`MAX_WAITING`, is an orphan, which costs room and nothing else.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from flamestream.loop.background import Queue
from flamestream.ports import ObjectStore, Reactor, Timer
from flamestream.store.snapshot_index import delete_objects

MAX_WAITING: Final = 4096
"""Objects that may wait to be removed."""
GATHER: Final = 1.0
"""Seconds for which objects are gathered."""

log = logging.getLogger(__name__)


class Deletions:
    """The deletions of one store, by way of one queue. `failed` is told of an error that is not the
    store's."""

    def __init__(
        self, store: ObjectStore, reactor: Reactor, queue: Queue, failed: Callable[[Exception], None]
    ) -> None:
        self._store, self._reactor, self._queue, self._failed = store, reactor, queue, failed
        self._waiting: list[str] = []
        self._held = False
        self._alarm: Timer | None = None

    def add(self, names: Sequence[str]) -> None:
        """Remove objects soon."""
        room = MAX_WAITING - len(self._waiting)
        if len(names) > room:
            log.warning("objects are left behind", extra={"names": list(names[room:])})
        self._waiting += names[:room]
        self._later()

    def hold(self, held: bool) -> None:
        """Have all deletions wait while they are held."""
        self._held = held
        self._later()

    def flush(self) -> None:
        """Remove what is gathered now, unless it is held."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._waiting and not self._held:
            names, self._waiting = self._waiting, []
            self._queue.run(lambda: delete_objects(self._store, names), self._done)

    def _later(self) -> None:
        if self._waiting and not self._held and self._alarm is None:
            self._alarm = self._reactor.later(GATHER, self.flush)

    def _done(self, left: Sequence[str] | Exception) -> None:
        if isinstance(left, Exception):
            self._failed(left)
        elif left:
            log.warning("objects are left behind", extra={"names": list(left)})
