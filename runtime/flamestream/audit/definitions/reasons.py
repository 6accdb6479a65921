"""Reasons: why no run gives what came out, in the fewest words that are true.

Does not: search for a run (search.py), but for the one question whether it came too early.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

from flamestream.audit.definitions.history import Left, OneKey
from flamestream.audit.definitions.search import Rules, Stuck, explained
from flamestream.audit.definitions.steps import Steps

SHOWN: Final = 80
"""Characters of a value in a reason."""
BOUND: Final = 1000
"""Tries for it."""


def reason(one: OneKey, steps: Steps, rules: Rules, stuck: Stuck, crashes: Sequence[int]) -> str:
    """A sentence about the output at which every run ends."""
    output, due = stuck.output, stuck.due
    if output is None:
        return f"{_shown(due)} was due, and never came"
    told = _skipped(one, output, due) if due is not None else _unexplained(one, steps, rules, output)
    return told + _behind(one, output, crashes)


def _skipped(one: OneKey, output: Left, due: Hashable) -> str:
    """Something else had to come first."""
    later = next((each for each in _from(one, output) if (each.to, each.value) == (output.to, due)), None)
    if later is not None:
        return f"{_shown(output.value)} came before {_shown(due)}, which was due first"
    return f"{_shown(output.value)} came where {_shown(due)} was due, which never came"


def _unexplained(one: OneKey, steps: Steps, rules: Rules, output: Left) -> str:
    value = _shown(output.value)
    earlier = [each for each in one.outputs if each.place < output.place]
    if not one.items:
        return f"{value}: nothing leads to it"
    if any((each.to, each.value) == (output.to, output.value) for each in earlier):
        return f"{value} came a second time, and no run gives it so often"
    if one.items[-1].place > output.place and _comes_later(one, steps, rules, output):
        return f"{value} follows from what had not entered yet"
    entered = sum(item.place < output.place for item in one.items)
    beside = f" beside the {len(earlier)} before it" if earlier else ""
    return f"{value}: no run over the {counted(entered, 'item')} that had entered gives it{beside}"


def _comes_later(one: OneKey, steps: Steps, rules: Rules, output: Left) -> bool:
    """Whether it is consistent if all items had entered before everything."""
    items = [replace(item, place=-1) for item in one.items]
    outputs = [each for each in one.outputs if each.place <= output.place]
    return explained(OneKey(one.key, False, items, outputs), steps, rules, BOUND).outcome is True


def counted(number: int, noun: str) -> str:
    """A number of something.

    >>> counted(1, "key"), counted(2000, "key")
    ('1 key', '2,000 keys')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _behind(one: OneKey, output: Left, crashes: Sequence[int]) -> str:
    """The failure between it and the output before it."""
    before = max((each.place for each in one.outputs if each.place < output.place), default=0)
    place = next((place for place in crashes if before < place < output.place), None)
    return "" if place is None else f" (the first of its key behind the crash at {place})"


def _from(one: OneKey, output: Left) -> list[Left]:
    return [each for each in one.outputs if each.place > output.place]


def _shown(value: Hashable) -> str:
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
