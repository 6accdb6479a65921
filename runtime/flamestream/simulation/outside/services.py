"""The simulated service that calls ask: it answers late, twice, wrong, otherwise each time, and never.

What it did for a request is what tells an effect that was lost from one that was doubled: it counts them by
the call's id. While nothing is healed a request may get no answer at all; its caller then gives it one, after
a while: an error. A caller that dies asks again, so the service is asked twice for one request; what it says
then is another thing.

Its faults are drawn by a chance of its own, so that jobs without calls are the same as without it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from flamestream.core.protocol.actions import MakeCall
from flamestream.core.protocol.events import CallReturned, Event
from flamestream.model import payload as codec
from flamestream.model.calls.call import CallFunction, answered
from flamestream.model.payload import ErrorValue
from flamestream.simulation.world import World

GIVEN_UP_AFTER = 40_000
"""Microseconds after which a caller answers in the service's place."""
MOST = (0.4, 0.2, 0.3, 0.3, 0.2)
"""The greatest rates that are drawn."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How often the service does what."""

    slow: float
    never: float
    twice: float
    asked_again: float
    wrong: float


class Service:
    """The service that all calls of a run ask. It outlives every process."""

    def __init__(self, world: World, delay: int, productions: Mapping[str, CallFunction[..., Any]]) -> None:
        """`productions`: of these it says what their functions give."""
        self.world, self._productions = world, productions
        self.effects: Counter[str] = Counter()
        """How often it did each request, by the request's id."""
        self.asked: Callable[[MakeCall], None] = lambda action: None
        self._delay = delay
        self._rng = Random(world.seed)
        self._rates = Rates(*(self._rng.choice([0.0, most * self._rng.random()]) for most in MOST))

    def answer(self, action: MakeCall) -> CallReturned:
        """Do what is asked for, and answer with what nobody could compute again."""
        self.effects[action.id] += 1
        if (production := self._productions.get(action.call)) is not None:
            item = codec.decode(action.payload)
            made = answered(production.function, item, production(item))
            return CallReturned(action.fence, action.call, action.request, *made)
        chance = self._rng.random()
        if chance < self._rates.wrong:
            self.world.trace.cover("service.error")
            error = ErrorValue("service", "Refused", f"no {chance:.6f}")
            return CallReturned(action.fence, action.call, action.request, (), error)
        key, value = codec.decode(action.payload)
        results = tuple((key, f"{value}{chance:.6f}"[-12:]) for _ in range(self._rng.choice([1, 1, 1, 0, 2])))
        return CallReturned(action.fence, action.call, action.request, results)

    @property
    def _well(self) -> bool:
        """Nothing goes wrong any more, for all that can was healed."""
        return not self.world.faults.rates and not self.world.faults.moments

    def delays(self) -> list[int]:
        """When the answers to a request come: none, one or two."""
        rates, rng = self._rates, self._rng
        usual = self.world.between(self._delay // 2, 10 * self._delay)
        if self._well:
            return [usual]
        if rng.random() < rates.never:
            self.world.trace.cover("service.never")
            return []
        first = usual * rng.randint(5, 100) if rng.random() < rates.slow else usual
        return [first, first + usual] if rng.random() < rates.twice else [first]

    def again(self, *, never: bool) -> bool:
        """Whether the caller dies, and asks again."""
        return not never and not self._well and self._rng.random() < self._rates.asked_again


class CallPort:
    """The caller of one worker process (`ports.Caller`)."""

    def __init__(self, service: Service, post: Callable[[Event], None], never: frozenset[str]) -> None:
        """`never`: calls that are not made again."""
        self._service, self._post, self._never = service, post, never
        self._alive = True

    def close(self) -> None:
        """The process is gone. What it asked for may still take effect."""
        self._alive = False

    def make(self, action: MakeCall) -> None:
        """Ask; the answer comes when it comes."""
        service = self._service
        service.asked(action)
        self._ask(action)
        if service.again(never=action.call in self._never):
            service.world.trace.cover("service.asked again")
            self._ask(action)

    def _ask(self, action: MakeCall) -> None:
        delays = self._service.delays()
        for delay in delays:
            # a request that is on its way reaches the service, whoever asked
            self._service.world.after(delay, lambda: self._answered(self._service.answer(action)))
        if not delays:
            error = ErrorValue("caller", "TimeoutError", "no answer")
            late = CallReturned(action.fence, action.call, action.request, (), error)
            self._service.world.after(GIVEN_UP_AFTER, lambda: self._answered(late))

    def _answered(self, event: CallReturned) -> None:
        if self._alive:
            self._post(event)
