"""Steps: what should be computed, as a pure function that takes one item after another.

Does not: know a graph (graph_steps.py is one of these).
"""

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

Result = tuple[Hashable, Hashable]
"""Where it comes out, and its value."""


class Steps(Protocol):
    """A deterministic function of the items of a key, in their order. A state is never changed: a search goes
    back to it."""

    def initial(self) -> Any:
        """The state before the first item."""

    def step(self, state: Any, value: Any) -> tuple[Any, Sequence[Result]]:
        """The state behind an item, and what comes out for it, in order."""

    def mark(self, state: Any) -> Hashable:
        """Equal for states that will give the same, and for no others."""
