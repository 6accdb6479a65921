"""The inbox of a coordinator: events for its next turn. A report that nobody waits for comes with those of other
workers, for a turn costs more than what it hears.

Keeps: the order of events; a report waits for `TOGETHER_US` at most, and for a quarter of an epoch's interval; whatever
else comes takes it along. Does not: know which reports those are (coordinator_host.py).
"""

from collections.abc import Callable
from typing import Final

from flamestream.core.coordinator import coordination as co
from flamestream.ports import Reactor, Timer

TOGETHER_US: Final = 200_000
"""The longest that a report waits for those of other workers, in microseconds."""


class Inbox:
    """Events of one coordinator."""

    def __init__(self, reactor: Reactor, interval_us: int | None, due: Callable[[], None]) -> None:
        """`interval_us`: between epochs; None: there are none. `due` is called, once a turn, when the next one has got
        something to hear; not of the first event."""
        self._reactor, self._due = reactor, due
        self._wait = min(TOGETHER_US, (interval_us or TOGETHER_US * 4) // 4) / 1e6
        # the first step asks for the job record
        self._events: list[co.Event] = [co.Woken()]
        self._is_due = False
        """Whether that was called since the last turn."""
        self._gathers: Timer | None = None
        """Set while reports wait for others."""

    def post(self, event: co.Event) -> None:
        """Have the next turn hear it."""
        self._events.append(event)
        self._turn_is_due()

    def post_report(self, event: co.FromWorker) -> None:
        """Have a turn hear it, with those of other workers."""
        self._events.append(event)
        if self._gathers is None:
            self._gathers = self._reactor.later(self._wait, self._turn_is_due)

    def take(self) -> list[co.Event]:
        """All that has come since the last turn."""
        self._is_due = False
        if self._gathers is not None:
            self._gathers.cancel()
            self._gathers = None
        events, self._events = self._events, []
        return events

    def _turn_is_due(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._due()
