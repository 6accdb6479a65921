"""The explorer: every history of a small system, breadth first, and the shortest that breaks a definition.

>>> found = explore(Policy("early"), appended, "ab")
>>> found.broken[Reading(6, strict=False)]
('+a', '+b', '[a]', '->a', 'CRASH', '[b]', '[ba]', '->ba')

Keeps: exhaustive for the given letters and one crash, at any step; a history that is shown is a shortest one.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flamestream.papers.definitions import READINGS, Reading, could_be
from flamestream.papers.systems import CRASH, START, Operation, Policy, Situation, appended, steps

__all__ = ["Exploration", "Policy", "Reading", "appended", "explore"]

History = tuple[str, ...]
_Came = dict[Situation, tuple[Situation, str] | None]
"""The step that led to a situation first."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """The histories of one system."""

    situations: int
    histories: int
    """Those that end where nothing is left to do, with a crash or without."""
    broken: Mapping[Reading, History]
    """A shortest history for each reading that does not hold."""

    def holds(self, definition: int, *, strict: bool) -> bool:
        """Whether no history breaks it."""
        return Reading(definition, strict) not in self.broken


def explore(policy: Policy, operation: Operation, inputs: str, *, once: bool = False) -> Exploration:
    """Look at every situation that a system with `policy` can come to.

    `once`: repeats of equal results are removed before anything is judged, as a consumer that knows them
    would.
    """
    came: _Came = {START: None}
    queue, broken = deque([START]), dict[Reading, History]()
    after: dict[Situation, list[Situation]] = {}
    while queue:
        now = queue.popleft()
        nexts = list(steps(policy, operation, inputs, now))
        after[now] = [then for _, then in nexts]
        for reading in _breaks(policy, operation, inputs, now, _is_quiet(nexts), once):
            broken.setdefault(reading, _history(came, now))
        for label, then in nexts:
            if then not in came:
                came[then] = now, label
                queue.append(then)
    return Exploration(len(came), _count(after), broken)


def _is_quiet(nexts: list[tuple[str, Situation]]) -> bool:
    return all(label == CRASH for label, _ in nexts)


def _breaks(
    policy: Policy, operation: Operation, inputs: str, now: Situation, quiet: bool, once: bool
) -> Iterator[Reading]:
    left = dict.fromkeys(now.left) if once else now.left
    values = tuple(result.value for result in left)
    ordered = policy.order == "time"
    for reading in READINGS:
        if not could_be(
            reading, inputs[: now.entered], values, quiet=quiet, ordered=ordered, operation=operation
        ):
            yield reading


def _history(came: _Came, end: Situation) -> History:
    labels: list[str] = []
    at = came[end]
    while at is not None:
        before, label = at
        labels.append(label)
        at = came[before]
    return tuple(reversed(labels))


def _count(after: Mapping[Situation, list[Situation]]) -> int:
    """Ways from the start to a situation where nothing but a crash can follow."""
    ways: dict[Situation, int] = {}

    def count(now: Situation) -> int:
        # As deep as a history is long: a few dozen steps.
        if now not in ways:
            nexts = after[now]
            quiet = not nexts or (len(nexts) == 1 and not now.crashed)
            ways[now] = quiet + sum(map(count, nexts))
        return ways[now]

    return count(START)
