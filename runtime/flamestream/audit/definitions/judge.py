"""Judge: definitions 5 to 8 of a history.

Witness first: for each key definition 6 is tried strictly, whose first path is the order of entering. Where
it holds everything follows, and the search was as long as the history. Only keys that break it are looked at
further.

>>> from flamestream.audit.definitions.history import Entered, Left
>>> class Joined:
...     def initial(self): return ""
...     def step(self, state, value): return state + value, [("out", state + value)]
...     def mark(self, state): return state
>>> lost = History([Entered(1, "k", "p", "a"), Entered(2, "k", "p", "b"), Left(3, "k", "out", "ab")], ended=True)
>>> judged(lost, Joined())[EXACTLY].outcome, judged(lost, Joined())[EXACTLY_STRICT].outcome
('holds', 'broken')
>>> judged(lost, Joined())[EXACTLY_STRICT].reason
'ab came where a was due, which never came'

Keeps: broken if one key breaks it; undecided if none does and one was not decided; else it holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from flamestream.audit.definitions.history import History, OneKey, by_key, crashes
from flamestream.audit.definitions.reasons import reason
from flamestream.audit.definitions.search import BOUND, Found, Rules, explained
from flamestream.audit.definitions.steps import Steps

Outcome = Literal["holds", "broken", "undecided"]


@dataclass(frozen=True, slots=True)
class Form:
    """A definition, as printed or strict."""

    definition: int
    strict: bool = False


EXACTLY, EXACTLY_STRICT = Form(6), Form(6, strict=True)
AT_MOST, AT_MOST_STRICT = Form(7), Form(7, strict=True)
AT_LEAST, AT_LEAST_STRICT = Form(8), Form(8, strict=True)
ALL_KEYS: Final = 20
"""How often the searches of all keys together may use a search's bound; behind that the witness alone is
tried."""
FORMS: Final = (EXACTLY, EXACTLY_STRICT, AT_MOST, AT_MOST_STRICT, AT_LEAST, AT_LEAST_STRICT)


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one form of a definition."""

    outcome: Outcome
    keys: int = 0
    """Those that break it."""
    undecided: int = 0
    """Those whose search reached its bound."""
    place: int | None = None
    """The place of the first output that no run gives; None: there is none, or something is missing at the
    end."""
    reason: str = ""
    """Why it is broken."""
    consistent: int = 0
    """Outputs of keys before the first that breaks it, which is definition 5 of definition 6 as printed."""


def judged(history: History, steps: Steps, bound: int = BOUND) -> dict[Form, Judged]:
    """The verdict on each form of definitions 6 to 8. `bound`: items that each search may take beyond those
    that there are."""
    failed = crashes(history)
    repeats, left = max(1, len(failed)), ALL_KEYS * bound
    found: dict[Form, _Outcomes] = {form: _Outcomes() for form in FORMS}
    for one in by_key(history):
        decided = _decided(one, steps, repeats, min(bound, left))
        left = max(0, left - sum(each.beyond for each in decided.values()))
        for form, each in decided.items():
            why = (
                "" if each.stuck is None else reason(one, steps, rules_of(form, repeats), each.stuck, failed)
            )
            found[form].add(one, each, why)
    return {form: outcomes.judged() for form, outcomes in found.items()}


def rules_of(form: Form, repeats: int) -> Rules:
    """Rules for a run by the definition of a form."""
    return Rules(form.strict, form.definition == 7, repeats if form.definition == 8 else 0)


def _decided(one: OneKey, steps: Steps, repeats: int, bound: int) -> Mapping[Form, Found]:
    """Outcomes of all forms for one key. A form that follows from a stronger one that holds is not searched
    for."""
    known: dict[Form, Found] = {}
    for form in (EXACTLY_STRICT, EXACTLY, AT_MOST_STRICT, AT_MOST, AT_LEAST_STRICT, AT_LEAST):
        stronger = [Form(6, form.strict), Form(form.definition, strict=True), EXACTLY_STRICT]
        follows = any(each in known and known[each].outcome for each in stronger)
        known[form] = Found(True) if follows else explained(one, steps, rules_of(form, repeats), bound)
    return known


class _Outcomes:
    """Outcomes of one form over all keys, counted."""

    def __init__(self) -> None:
        self._broken: list[tuple[float, int | None, str]] = []
        self._undecided = self._consistent = 0

    def add(self, one: OneKey, found: Found, why: str) -> None:
        """Count a key's outcome."""
        self._undecided += found.outcome is None
        if found.outcome:
            self._consistent += len(one.outputs)
        if found.stuck is not None:
            output = found.stuck.output
            place = None if output is None else output.place
            until = float("inf") if place is None else place
            self._broken.append((until, place, why))
            self._consistent += sum(each.place < until for each in one.outputs)

    def judged(self) -> Judged:
        """The verdict."""
        outcome: Outcome = "broken" if self._broken else "undecided" if self._undecided else "holds"
        _, place, why = min(self._broken, default=(0.0, None, ""), key=lambda each: each[0])
        return Judged(outcome, len(self._broken), self._undecided, place, why, self._consistent)
