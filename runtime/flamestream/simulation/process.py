"""A simulated process: an inbox, turns of a loop, pauses and sudden death, both also between two actions of
one step.

A turn hands everything in the inbox (or, now and then, only a part of it) to the core as one pass and carries
out the actions in their order. A paused process keeps its inbox growing and wakes up as a zombie.

A pass takes no time, unless the process has a `charge`: then its actions are carried out when the time
charged has passed, and events wait.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from flamestream.model.time import Instant, Timestamp
from flamestream.simulation.faults import Fault
from flamestream.simulation.world import SimulationFailure, World

MAX_INBOX = 20_000
CLOCKS_BEGIN = 1 << 38
"""Microseconds (three days): so much later than virtual time is what clocks show, so that one can be hours
behind it."""
STALL = (1_000, 80_000)
"""Microseconds that a process stands still within a step."""
Charge = Callable[[Sequence[Any], Sequence[Any]], int]
"""How many microseconds of a core's time a pass takes, by its events and actions."""


class Killed(BaseException):
    """A function has ended the process that calls it; no handler of its errors hears of that."""


_under_way: list["Process"] = []
"""Whose pass is being taken."""


def kill() -> None:
    """End the process that calls this, where one does: who only asks what comes out goes on."""
    if _under_way:
        raise Killed


class Process(ABC):
    """The parts that worker and coordinator processes have in common."""

    crash_in_step: Fault
    stall_in_step: Fault

    def __init__(self, world: World, name: str, turn: int) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.skew = 0
        self._zero = crc32(name.encode())
        self.paused_until = 0
        self.charge: Charge | None = None
        self._turn_time = turn
        self._inbox: list[Any] = []
        self._due = False
        self._busy = False

    @abstractmethod
    def step(self, events: Sequence[Any]) -> Sequence[Any]:
        """The core's."""

    @abstractmethod
    def carry_out(self, action: Any) -> None:
        """Carry out an action of the core."""

    @abstractmethod
    def close(self) -> None:
        """End the process, with everything in its memory."""

    def crash(self) -> None:
        """Kill the process."""
        if self.alive:
            self.world.trace.note(self.world.now, self.name, "crash")
            self.close()

    def post(self, event: Any) -> None:
        """Something happened to it."""
        if self.alive:
            self._inbox.append(event)
            self.world.require(
                len(self._inbox) <= MAX_INBOX, "8 bounds", f"{len(self._inbox)} events wait at {self.name}"
            )
            self._wake(self.world.between(1, self._turn_time))  # never at once: a process has a loop

    def post_later(self, delay: int, event: Any) -> None:
        """Something will happen to it."""
        self.world.after(delay, self.post, event)

    def pause(self, lasts: int) -> None:
        """Let the process stand still."""
        self.paused_until = max(self.paused_until, self.world.now + lasts)

    @property
    def clock(self) -> Timestamp:
        """The time as the process believes it to be, in microseconds."""
        # 1: a clock that is set before all clocks stands where they begin (CLOCK_UNSET).
        return Timestamp(max(1, CLOCKS_BEGIN + self.world.now + self.skew))

    @property
    def instant(self) -> Instant:
        """The clock that nobody sets, in microseconds; each process's has a zero of its own."""
        return Instant(self.world.now + self._zero)

    def _wake(self, delay: int) -> None:
        # One turn is due at most: what comes meanwhile joins its pass.
        if not self._due:
            self._due = True
            self.world.after(max(delay, self.paused_until - self.world.now), self._turn)

    def _turn(self) -> None:
        self._due = False
        # Busy: `_finish` wakes it, and its inbox has what came meanwhile.
        if not self.alive or not self._inbox or self._busy:
            return
        if self.world.now < self.paused_until:
            self._wake(0)
            return
        events, self._inbox = self._inbox, []
        if len(events) > 1 and self.world.rng.random() < 0.1:  # a loop may see some events a turn later
            most = self.world.between(1, len(events))
            events, self._inbox = events[:most], events[most:]
            self._wake(self._turn_time)
        _under_way.append(self)
        try:
            actions = self.step(events)
        except SimulationFailure:
            raise
        except Killed:
            self.crash()
            return
        except Exception as error:  # a core raises nothing but assertions of its own; either is a finding
            raise self.world.fail("core", f"{self.name}: {type(error).__name__}: {error}") from error
        finally:
            _under_way.pop()
        cost = self.charge(events, actions) if self.charge is not None else 0
        if cost:
            self._busy = True
            self.world.after(cost, self._finish, actions)
        else:
            self._carry_out_all(actions)

    def _finish(self, actions: Sequence[Any]) -> None:
        """The time of a pass is over; a pause makes it longer."""
        if self.alive and self.world.now < self.paused_until:
            self.world.after(self.paused_until - self.world.now, self._finish, actions)
            return
        self._busy = False
        if self.alive:
            self._carry_out_all(actions)
        if self._inbox:
            self._wake(1)

    def _carry_out_all(self, actions: Sequence[Any]) -> None:
        last = (
            self.world.between(0, len(actions)) if actions and self.world.hits(self.crash_in_step) else None
        )
        stall = (
            # before the first action it would be no more than a late turn
            self.world.between(1, len(actions))
            if len(actions) > 1 and self.world.hits(self.stall_in_step)
            else None
        )
        for number, action in enumerate(actions):
            if number == last:
                self.crash()
                return
            if number == stall:
                self._stall(actions[number:])
                return
            self.carry_out(action)
            if self._gone():
                return

    def _stall(self, left: Sequence[Any]) -> None:
        """Stand still before the rest of a step's actions; what happens meanwhile waits."""
        self._busy = True
        self.pause(self.world.between(*STALL))
        self.world.after(self.paused_until - self.world.now, self._finish, left)

    def _gone(self) -> bool:
        """Carrying out an action may have ended it."""
        return not self.alive
