"""The watch over new code: whether it fails where the code before did not.

    a worker says that the job cannot go on, and it is the user's code     at once (upgrade.py is told)
    workers die, or cannot come to run                                     the third time
    the stream has not run since                                           at the end
    error items are delivered as dead letters                              the first, if the code before had
                                                                           none; else ten, at twice its rate

It goes on for as long again where a worker was lost, and until none is silent. A coordinator that began behind the tick
compares no error items: it has not seen those of the code before.

Does not: see results that are wrong (that is for a canary), or act (upgrade.py).
"""

from typing import Final

from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.membership import RECENT_US
from flamestream.model.time import Instant

MOST_DEATHS: Final = 3
ENOUGH_ERRORS: Final = 10
TIMES: Final = 2.0


class Watch:
    """From a tick on, for as long as the settings say. Made before the new code's workers say anything."""

    def __init__(self, context: Context, ran_for_us: int | None) -> None:
        """`ran_for_us`: how long the newest attempt of the code before has run; None: nobody here has seen it."""
        self._context, self._since = context, context.time.now
        self._deaths, self._errors = context.deaths, context.errors
        self._died, self._newest = context.deaths, self._since
        """The deaths that were seen so far, and when the newest was, or the tick."""
        self._ran_for = None if ran_for_us is None else max(ran_for_us, 1)

    @property
    def over(self) -> bool:
        """Whether it has been watched for long enough since the tick, and since it has last lost a worker; not while
        a worker is silent, for that may be the next."""
        context, now = self._context, self._context.time.now
        if context.deaths != self._died:
            self._died, self._newest = context.deaths, now
        return (
            context.time.due_in(self._newest, context.settings.watch_us)
            and context.running
            and all(
                each in context.members and now - context.members[each].heard <= RECENT_US
                for each in context.workers
            )
        )

    def failed(self, *, ran: bool) -> str:
        """The reason why the new code is no good; "" as long as nothing is known. `ran`: whether it has come to
        that."""
        if not ran and self._context.time.due_in(self._since, self._context.settings.watch_us):
            return f"the new code has not come to run within {self._context.settings.watch_us / 1e6:g} s"
        if (deaths := self._context.deaths - self._deaths) >= MOST_DEATHS:
            return f"workers of the new code were lost {deaths} times"
        return "" if self._ran_for is None else self._more_errors(self._ran_for)

    def _more_errors(self, ran_for: int) -> str:
        errors, lasted = self._context.errors, self._lasted()
        if errors and not self._errors:
            return f"{errors} error items, and the code before had none"
        if errors >= ENOUGH_ERRORS and errors / lasted > TIMES * self._errors / ran_for:
            rates = f"{errors / lasted * 1e6:.3g} a second, {self._errors / ran_for * 1e6:.3g} before"
            return f"{errors} error items: {rates}"
        return ""

    def _lasted(self) -> int:
        return max(Instant(self._context.time.now - self._since), 1)
