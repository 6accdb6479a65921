"""Systems: a small stream processing system as a policy, and the steps it can take from a situation.

The formal model of the delivery paper, for one operation that does not commute. Its inputs are letters; the
working set is what has entered and waits, the operation's state, and results that have not left. Any step can
be next: a letter enters, one that waits is applied, a result leaves, the state is saved, all but what is
durable is lost. What differs from system to system is a `Policy`.

>>> early = Policy("early")
>>> at = START
>>> for wanted in ("+a", "+b", "[b]", "->b", "CRASH", "[a]"):
...     at = dict(steps(early, appended, "ab", at))[wanted]
>>> at.applied, at.left                         # `b` had left, and now the state is `a`
('a', (Result(place=1, value='b'),))

Keeps: pure; every step makes progress, so histories end. Does not: judge (definitions.py) or search
(explore.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

Operation = Callable[[str], str]
"""Letters in the order in which they were applied -> the result of the last."""


def appended(applied: str) -> str:
    """Concatenation: the result is all of it."""
    return applied


def last_two(applied: str) -> str:
    """A window of two, as in Table II of the delivery paper."""
    return applied[-2:]


@dataclass(frozen=True, slots=True)
class Policy:
    """The choices that tell one system from another."""

    name: str
    order: Literal["any", "time", "journal"] = "any"
    """Which waiting input is applied next: any; the one that entered first; or any, where the choice is
    written down, a replay follows it, and results wait for that."""
    leaves: Literal["at once", "committed"] = "at once"
    """When a result leaves: as soon as it is there, or when a snapshot has its state."""
    snapshot: Literal["never", "at any time", "when delivered"] = "at any time"
    holds: bool = False
    """A snapshot has the results that have not left, too."""
    recovers: Literal["replay", "skip", "anew"] = "replay"
    """How a crash is recovered from: from the last snapshot, with the input since or without it; or as if
    nothing had been."""
    filters: bool = True
    """A result that is not behind what has left already is dropped."""


class Result(NamedTuple):
    """A result, with its place in the total order."""

    place: int
    value: str


class Saved(NamedTuple):
    """A snapshot."""

    applied: str = ""
    held: tuple[Result, ...] = ()


class Situation(NamedTuple):
    """All that a system and its consumer are at a moment."""

    entered: int = 0
    waiting: str = ""
    applied: str = ""
    ready: tuple[Result, ...] = ()
    """Computed, and not left."""
    left: tuple[Result, ...] = ()
    saved: Saved = Saved()
    journal: str = ""
    """The order, as far as it is written."""
    crashed: bool = False


Step = tuple[str, Situation]
"""(how a history shows it, what follows)."""
START = Situation()
CRASH = "CRASH"


def steps(policy: Policy, operation: Operation, inputs: str, now: Situation) -> Iterator[Step]:
    """All that can be next. A crash comes last, and once at most."""
    if now.entered < len(inputs):
        letter = inputs[now.entered]
        yield f"+{letter}", now._replace(entered=now.entered + 1, waiting=now.waiting + letter)
    for letter in _next(policy, now):
        yield _applied(policy, operation, inputs, now, letter)
    if policy.order == "journal" and len(now.journal) < len(now.applied):
        yield "log", now._replace(journal=now.applied)
    if now.ready and _may_leave(policy, now):
        result, *rest = now.ready
        yield f"->{result.value}", now._replace(ready=tuple(rest), left=(*now.left, result))
    if _may_save(policy, now):
        yield "snap", now._replace(saved=Saved(now.applied, now.ready if policy.holds else ()))
    # one alone: with more of them histories would have no end
    if not now.crashed:
        yield CRASH, _recovered(policy, inputs, now)


def _next(policy: Policy, now: Situation) -> str:
    """The letters of which each could be applied."""
    if len(now.applied) < len(now.journal):
        # a replay keeps to what is written, whatever else waits
        return now.journal[len(now.applied)]
    return min(now.waiting, default="") if policy.order == "time" else now.waiting


def _applied(policy: Policy, operation: Operation, inputs: str, now: Situation, letter: str) -> Step:
    applied = now.applied + letter
    # Where the order is that of time, so is a result's place; elsewhere all there is are numbers.
    place = inputs.index(letter) + 1 if policy.order == "time" else len(applied)
    result = Result(place, operation(applied))
    ready = now.ready if policy.filters and place <= _last(now) else (*now.ready, result)
    return f"[{result.value}]", now._replace(
        waiting=now.waiting.replace(letter, ""), applied=applied, ready=ready
    )


def _may_leave(policy: Policy, now: Situation) -> bool:
    """Whether the first result may."""
    done = len(now.applied) - len(now.ready) + 1  # results are ready in the order of letters
    if policy.order == "journal" and done > len(now.journal):
        return False
    return policy.leaves == "at once" or done <= len(now.saved.applied)


def _may_save(policy: Policy, now: Situation) -> bool:
    if policy.snapshot == "never" or now.saved.applied == now.applied:
        return False
    return policy.snapshot == "at any time" or not now.ready


def _recovered(policy: Policy, inputs: str, now: Situation) -> Situation:
    """The situation behind a crash: what is durable, and what the source gives again."""
    anew = policy.recovers == "anew"
    saved, journal = (Saved(), "") if anew else (now.saved, now.journal)
    # the source gives all once more; of that, the snapshot's state has what was applied to it
    again = "" if policy.recovers == "skip" else inputs[: now.entered]
    waiting = "".join(letter for letter in again if letter not in saved.applied)
    # held results may have left between the snapshot and the crash
    ready = tuple(each for each in saved.held if not policy.filters or each.place > _last(now))
    return now._replace(
        waiting=waiting, applied=saved.applied, ready=ready, saved=saved, journal=journal, crashed=True
    )


def _last(now: Situation) -> int:
    """The place of the last result that left: a consumer remembers it."""
    return max((result.place for result in now.left), default=0)
