"""How long somebody who was asked has not answered, for a `problem`.

>>> silence = Silence(3.0)
>>> silence.begin()
>>> silence.problem
''

Keeps: `problem` may be read by any thread. Does not: give up.
"""

import time


class Silence:
    """The silence of a party that is asked one thing at a time."""

    def __init__(self, seconds: float) -> None:
        """Silence of more than `seconds` is a problem."""
        self._seconds = seconds
        self._since: float | None = None

    def begin(self) -> None:
        """A question has left."""
        self._since = time.monotonic()

    def end(self) -> None:
        """The question is answered, or given up."""
        self._since = None

    @property
    def problem(self) -> str:
        """A sentence that there is no answer; "" if there is one, or it is not late."""
        since = self._since  # read once: another thread may end it meanwhile
        waited = 0.0 if since is None else time.monotonic() - since
        return f"has not answered for {waited:.0f} s" if waited > self._seconds else ""
