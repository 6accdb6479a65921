"""One attack: who does what, and how often a second."""

from collections.abc import Callable
from dataclasses import dataclass

from attacks.hands import Hands

Strike = Callable[[Hands, int], None]
"""Does it once more; the number says how often it was done before."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A line of the table."""

    who: str
    """What the attacker has reached, or is."""
    does: str
    strike: Strike
    a_second: float = 100.0
    """At most: an attacker elsewhere has a processor of its own, and this one shares the victims'."""
    prepare: Callable[[], object] = lambda: None
    """What takes long and is not the attack."""
    ends: bool = False
    """The attacked job fails, as it should: only its neighbour is looked at."""

    @property
    def name(self) -> str:
        return f"{self.who}: {self.does}"
