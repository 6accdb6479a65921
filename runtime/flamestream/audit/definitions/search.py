"""Search: is there a run that gives what came out for one key?

Depth first through what the formal model's system could have done: take the next item of a partition (or,
where a definition lets it, leave it out, or go back in a partition and take a stretch again), and let a
result out. Items are taken no sooner than an output needs one, and in the order in which they entered if
nothing speaks against it. So of a history whose order was that one the first path is the last one: the
search is as long as the history.

>>> class Joined:
...     def initial(self): return ""
...     def step(self, state, value): return state + value, [("out", state + value)]
...     def mark(self, state): return state
>>> items = [Entered(1, "k", "left", "a"), Entered(2, "k", "right", "b")]
>>> explained(OneKey("k", False, items, [Left(3, "k", "out", "b")]), Joined(), Rules(strict=True)).outcome
True
>>> found = explained(OneKey("k", False, items, [Left(3, "k", "out", "ab")]), Joined(), Rules(strict=True))
>>> found.outcome, found.stuck.due
(False, 'a')

Keeps: False only if everything was tried; `bound` tries beyond the items themselves end it undecided.
Two prunings lose nothing: whatever an early step makes possible a later one does too, and of two ways to the
same point one is enough. Does not: find a reason (reasons.py).
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple

import immutables

from flamestream.audit.definitions.history import Entered, Left, OneKey
from flamestream.audit.definitions.steps import Result, Steps

BOUND: Final = 10_000
"""Items that may be taken beyond those that there are, a key and definition."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for a run: what it may do beside giving each result once."""

    strict: bool
    """Results come out in their order, each of them; else any that was made, at any time or never."""
    leaves_out: bool = False
    """Records may be left out (definition 7)."""
    repeats: int = 0
    """How many stretches may be taken again (definition 8)."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """The furthest point that any run comes to."""

    output: Left | None
    """No run gives it beside those before it; None: that is not where it ends."""
    due: Hashable = None
    """The output that has to stand there instead."""


@dataclass(frozen=True, slots=True)
class Found:
    """A search's outcome."""

    outcome: bool | None
    """None: the bound was hit."""
    stuck: Stuck | None = None
    """If there is no run."""
    beyond: int = 0
    """Items that were taken beyond those that there are."""


def explained(one: OneKey, steps: Steps, rules: Rules, bound: int = BOUND) -> Found:
    """Whether a run by these rules gives what came out."""
    return _Search(one, steps, rules, bound).found()


class _Point(NamedTuple):
    """How far a run has come."""

    heads: tuple[int, ...]
    """The next item of each partition."""
    state: Any
    made: "immutables.Map[Hashable, int]"
    """Strict: to -> how many results it had. Else: (to, value) -> how many of these have not left."""
    left: int
    """Outputs that have left."""
    repeats: int
    """Stretches that may still be taken again."""


class _OutOfBounds(Exception):
    """More was tried than is allowed."""


class _Search:
    def __init__(self, one: OneKey, steps: Steps, rules: Rules, bound: int) -> None:
        self._outputs, self._ended, self._steps, self._rules = one.outputs, one.ended, steps, rules
        self._partitions = _partitions(one.items)
        self._by_to: dict[Hashable, list[Left]] = {}
        self._number: list[int] = []
        for output in one.outputs:
            theirs = self._by_to.setdefault(output.to, [])
            self._number.append(len(theirs))
            theirs.append(output)
        self._wanted = {(output.to, output.value) for output in one.outputs}
        self._bound = bound
        self._tries = len(one.items) + bound
        self._stuck: Stuck | None = None
        self._seen: set[Hashable] = set()

    def found(self) -> Found:
        heads, none = (0,) * len(self._partitions), immutables.Map[Hashable, int]()
        start = _Point(heads, self._steps.initial(), none, 0, self._rules.repeats)
        stack = [iter([start])]
        try:
            while stack:
                if (point := next(stack[-1], None)) is None:
                    stack.pop()
                elif (choices := self._followed(point)) is None:
                    return Found(True, None, self._beyond())
                else:
                    stack.append(choices)
        except _OutOfBounds:
            return Found(None, None, self._beyond())
        return Found(False, self._stuck, self._beyond())

    def _beyond(self) -> int:
        return max(0, self._bound - self._tries)

    def _followed(self, point: _Point | None) -> Iterator[_Point] | None:
        """From `point` as far as there is one way; then the ways. None: the run is found."""
        while point is not None:
            point = self._let_out(point)
            if self._done(point):
                return None
            if not self._is_forced(point):
                return iter(()) if self._was_here(point) else self._ways(point)
            point = self._taken(point, 0)
        return iter(())

    def _let_out(self, point: _Point) -> _Point:
        """All outputs whose results are there: to let one out sooner hinders nothing."""
        left, made = point.left, point.made
        while left < len(self._outputs):
            output = self._outputs[left]
            if self._rules.strict:
                if made.get(output.to, 0) <= self._number[left]:
                    break
            else:
                result = (output.to, output.value)
                if not (count := made.get(result, 0)):
                    break
                made = made.set(result, count - 1) if count > 1 else made.delete(result)
            left += 1
        return point if left == point.left else point._replace(left=left, made=made)

    def _done(self, point: _Point) -> bool:
        if point.left < len(self._outputs):
            return False
        through = all(head == len(items) for head, items in zip(point.heads, self._partitions, strict=True))
        return through or not (self._ended and self._rules.strict)

    def _is_forced(self, point: _Point) -> bool:
        return (
            len(self._partitions) == 1
            and not self._rules.leaves_out
            and not point.repeats
            and self._has_next(point, 0)
        )

    def _has_next(self, point: _Point, partition: int) -> bool:
        """Whether there is a next item, and it had entered before the output that is wanted."""
        items, head = self._partitions[partition], point.heads[partition]
        return head < len(items) and items[head].place < self._until(point)

    def _until(self, point: _Point) -> float:
        return self._outputs[point.left].place if point.left < len(self._outputs) else inf

    def _ways(self, point: _Point) -> Iterator[_Point]:
        heads = point.heads
        ready = [number for number in range(len(heads)) if self._has_next(point, number)]
        ready.sort(key=lambda number: self._partitions[number][heads[number]].place)
        if not ready and point.left < len(self._outputs):
            self._ends_at(Stuck(self._outputs[point.left]))
        for number in ready:
            if (taken := self._taken(point, number)) is not None:
                yield taken
        for number in ready if self._rules.leaves_out else ():
            self._try()
            yield point._replace(heads=_moved(heads, number, heads[number] + 1))
        for number, head in enumerate(heads if point.repeats else ()):
            for back in range(head - 1, -1, -1):
                self._try()
                yield point._replace(heads=_moved(heads, number, back), repeats=point.repeats - 1)

    def _taken(self, point: _Point, partition: int) -> _Point | None:
        """The point behind the next item of a partition; None if something else came out."""
        self._try()
        head = point.heads[partition]
        state, results = self._steps.step(point.state, self._partitions[partition][head].value)
        made = self._counted(point.made, results)
        if made is None:
            return None
        return point._replace(heads=_moved(point.heads, partition, head + 1), state=state, made=made)

    def _counted(
        self, made: "immutables.Map[Hashable, int]", results: Sequence[Result]
    ) -> "immutables.Map[Hashable, int] | None":
        for to, value in results:
            if not self._rules.strict:
                # what nobody waits for stays under way: to count it would only make points differ
                if (to, value) in self._wanted:
                    made = made.set((to, value), made.get((to, value), 0) + 1)
                continue
            number, theirs = made.get(to, 0), self._by_to.get(to, [])
            there = theirs[number] if number < len(theirs) else None
            if self._ended if there is None else there.value != value:
                self._ends_at(Stuck(there, value))
                return None
            made = made.set(to, number + 1)
        return made

    def _try(self) -> None:
        if not self._tries:
            raise _OutOfBounds
        self._tries -= 1

    def _ends_at(self, stuck: Stuck) -> None:
        """Keep the furthest; of as far ones the first, which is nearest to the order of entering."""
        if self._stuck is None or _place(stuck) > _place(self._stuck):
            self._stuck = stuck

    def _was_here(self, point: _Point) -> bool:
        """Whether the same point was looked at; before anything was given up, nobody asks."""
        if self._stuck is None:
            return False
        mark = (point.heads, self._steps.mark(point.state), point.made, point.left, point.repeats)
        if mark in self._seen:
            return True
        self._seen.add(mark)
        return False


def _place(stuck: Stuck) -> float:
    return inf if stuck.output is None else stuck.output.place


def _moved(heads: tuple[int, ...], partition: int, to: int) -> tuple[int, ...]:
    return (to,) if len(heads) == 1 else (*heads[:partition], to, *heads[partition + 1 :])


def _partitions(items: list[Entered]) -> list[list[Entered]]:
    found: dict[Hashable, list[Entered]] = {}
    for item in items:
        found.setdefault(item.partition, []).append(item)
    return list(found.values())
