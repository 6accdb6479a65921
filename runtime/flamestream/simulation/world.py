"""The world: virtual time, one source of randomness, and what is due when.

Everything that happens in a simulated run is a call in one heap, ordered by virtual time and, within a
microsecond, by the order in which it was asked for. All randomness comes from `rng`. So the seed decides
everything (invariant 10).

Does not: know what is simulated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any

from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.trace import Trace

EPOCH_START = 1_000_000
"""Virtual time begins here, so that a clock can be behind it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first result of a sink that is not the reference's, as texts; "" for none."""

    sink: str
    got: str
    wanted: str


class SimulationFailure(Exception):
    """An invariant does not hold, or the job did not end."""

    def __init__(
        self,
        seed: int,
        invariant: str,
        now: int,
        detail: str,
        guarantee: str = "exactly-once",
        difference: Difference | None = None,
        kind: str = "",
    ) -> None:
        self.seed, self.invariant, self.now, self.detail, self.guarantee = (
            seed,
            invariant,
            now,
            detail,
            guarantee,
        )
        self.difference, self.kind = difference, kind
        under = "" if guarantee == "exactly-once" else f" --guarantee {guarantee}"
        under += f" --kind {kind}" if kind else ""
        super().__init__(
            f"seed {seed}: {invariant} at {now / 1000:.3f} ms of virtual time: {detail}\n"
            f"replay it with: flamestream simulate --seed {seed}{under} --trace"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels between processes of a swarm."""
        # By default an exception is made again from its `args`, which are the text alone here.
        return SimulationFailure, (
            self.seed,
            self.invariant,
            self.now,
            self.detail,
            self.guarantee,
            self.difference,
            self.kind,
        )


class World:
    """All that simulated parts share: virtual time, chance, the trace and the faults."""

    def __init__(
        self, seed: int, rng: Random, trace: Trace, faults: FaultPlan, guarantee: str = "exactly-once",
        kind: str = "",
    ) -> None:  # fmt: skip
        """`guarantee` and `kind`: what `flamestream simulate` has to be told to draw this job."""
        self.seed = seed
        self.guarantee, self.kind = guarantee, kind
        self.rng = rng
        self.trace = trace
        self.faults = faults
        self.now = EPOCH_START
        self._due: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def after(self, delay: int, call: Callable[..., None], *args: Any) -> None:
        """Call in `delay` microseconds of virtual time."""
        self._count += 1
        # the count decides ties, so the seed decides all (!)
        heappush(self._due, (self.now + delay, self._count, call, args))

    def step(self) -> bool:
        """Do the next thing that is due. False if nothing is."""
        if not self._due:
            return False
        self.now, _, call, args = heappop(self._due)
        call(*args)
        return True

    def between(self, low: int, high: int) -> int:
        """A random delay. Cheaper than `randint`."""
        return low + int(self.rng.random() * (high - low))

    def hits(self, fault: Fault) -> bool:
        """Whether `fault` happens here and now."""
        return self.faults.hits(fault)

    def fail(self, invariant: str, detail: str, difference: Difference | None = None) -> SimulationFailure:
        """To be raised."""
        return SimulationFailure(
            self.seed, invariant, self.now, detail, self.guarantee, difference, self.kind
        )

    def require(self, holds: bool, invariant: str, detail: str) -> None:
        """Raise unless it holds."""
        if not holds:
            raise self.fail(invariant, detail)
