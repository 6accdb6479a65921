"""Twenty-four small systems, each with something that is chosen, and what may depend on it.

The choice `s` is what nobody can compute again: the order in which a non-commutative operation was applied.
`v` is computed from it. One output depends on `v`, the other on `s`. Systems differ in when each becomes
durable, and in whether the outputs leave together. A crash loses what is not durable, and the choice is made
again. What is durable and what has left are all output (as in the paper's model), and must come from one
choice.

>>> broken(System("never", "never", together=False))
('s=0', 'v=0', '->b1', 'CRASH', 's=1', 'v=1', '->b2')
>>> broken(System("first", "some time", together=False)) is None
True

Keeps: what is found and what is predicted have nothing in common but `System`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, NamedTuple, get_args

from flamestream.papers.report import Table

OfChoice = Literal["first", "before output", "some time", "never"]
OfDerived = Literal["before output", "some time", "never"]


@dataclass(frozen=True, slots=True)
class System:
    """When things become durable, and how output leaves."""

    choice: OfChoice
    """When `s` does. `first`: before `v` does or anything leaves."""
    derived: OfDerived
    """When `v` does."""
    together: bool
    """Both outputs leave in one step."""


SYSTEMS: Final = tuple(
    System(*each) for each in product(get_args(OfChoice), get_args(OfDerived), (False, True))
)


def predicts(system: System) -> bool:
    """The word of Theorem 1 on `system`: it holds."""
    before_v = system.choice == "first" or system.derived == "never"
    durable_first = system.choice in ("first", "before output") and before_v
    nothing_durable = system.choice == system.derived == "never"
    return durable_first or (nothing_durable and system.together)


def table(predicts: Callable[[System], bool]) -> tuple[Table, int]:
    """Each system with its shortest breaking history, and how many are as `predicts` says."""
    found = [(system, broken(system)) for system in SYSTEMS]
    rows = [
        (
            system.choice,
            system.derived,
            "together" if system.together else "one by one",
            "holds" if predicts(system) else "breaks",
            "holds" if history is None else " ".join(history),
        )
        for system, history in found
    ]
    made = Table(
        "(1) A choice s, and v computed from it; outputs b1 of v and b2 of s",
        ("s is durable", "v is durable", "outputs leave", "predicted", "found"),
        tuple(rows),
    )
    return made, sum(predicts(system) == (history is None) for system, history in found)


class _Now(NamedTuple):
    """A value is the choice that it comes from; None: it is not there."""

    s: int | None = None
    v: int | None = None
    saved_s: int | None = None
    saved_v: int | None = None
    b1: int | None = None
    b2: int | None = None
    crashed: bool = False

    @property
    def contradicts_itself(self) -> bool:
        return {0, 1} <= {self.saved_s, self.saved_v, self.b1, self.b2}


def broken(system: System) -> tuple[str, ...] | None:
    """The shortest history in which output contradicts itself; None if there is none."""
    came: dict[_Now, tuple[str, ...]] = {_Now(): ()}
    queue = deque(came)
    while queue:
        now = queue.popleft()
        if now.contradicts_itself:
            return came[now]
        for label, then in _steps(system, now):
            if then not in came:
                came[then] = (*came[now], label)
                queue.append(then)
    return None


def _steps(system: System, now: _Now) -> Iterator[tuple[str, _Now]]:
    if now.s is None:
        yield from ((f"s={choice}", now._replace(s=choice)) for choice in (0, 1))
    elif now.v is None:
        yield f"v={now.s}", now._replace(v=now.s)
    if now.s is not None and now.saved_s is None and system.choice != "never":
        yield "save s", now._replace(saved_s=now.s)
    if now.v is not None and now.saved_v is None and _may_save_derived(system, now):
        yield "save v", now._replace(saved_v=now.v)
    if now.v is not None and now.s is not None and _may_leave(system, now):
        if now.b1 is None:
            # in one step: a crash finds both outside, or none
            both = now.s if system.together else None
            yield "->b1 b2" if system.together else "->b1", now._replace(b1=now.v, b2=both)
        elif now.b2 is None:
            yield "->b2", now._replace(b2=now.s)
    if not now.crashed:
        # output stays: nobody takes back what has left
        yield "CRASH", now._replace(s=now.saved_s, v=now.saved_v, crashed=True)


def _may_save_derived(system: System, now: _Now) -> bool:
    if system.derived == "never":
        return False
    return system.choice != "first" or now.saved_s is not None


def _may_leave(system: System, now: _Now) -> bool:
    waits_for_choice = system.choice in ("first", "before output") and now.saved_s is None
    return not waits_for_choice and not (system.derived == "before output" and now.saved_v is None)
