"""Beside: something that is done in a thread of its own, again and again, until it is told to end.

Keeps: what it raises is told by who waits for it. Does not: know what is done.
"""

import threading
from abc import ABC, abstractmethod


class Beside(ABC):
    """A thread that takes turns."""

    pause = 0.0
    """Seconds between two turns."""

    def __init__(self) -> None:
        self.problem = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def turn(self) -> None:
        """Do it once."""

    def begun(self) -> threading.Thread:
        """The thread, which runs."""
        self._thread.start()
        return self._thread

    def ends(self) -> None:
        """Back when it is over."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(self.pause):
                self.turn()
        except Exception as error:  # noqa: BLE001 (whatever it is, the run has failed)
            self.problem = f"{type(self).__name__}: {type(error).__name__}: {error}"
