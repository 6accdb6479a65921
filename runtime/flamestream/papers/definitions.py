"""Definitions 6, 7 and 8 of the delivery paper, for the small systems: exactly once, at most once, at least
once.

Each says: whatever leaves could also have left a system that never loses anything. They differ in the input
that this other system may have been given: the same; some of it; all of it, some letters twice.

As printed, a definition asks for no more than that each result could be there: results may overtake each
other, and one may stay inside for ever, so lost output goes unseen. Read strictly, results leave in order,
none is passed over, and when nothing is left to do all have left.

>>> could_be(Reading(6, strict=False), "ab", ("a", "ba"), quiet=True, ordered=False, operation=appended)
False
>>> could_be(Reading(6, strict=False), "ab", ("ab",), quiet=True, ordered=False, operation=appended)
True
>>> could_be(Reading(6, strict=True), "ab", ("ab",), quiet=True, ordered=False, operation=appended)
False

Does not: know policies. Source: the delivery paper, section 3 (definitions 5 to 8).
"""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Final, NamedTuple

from flamestream.papers.systems import Operation, appended

__all__ = ["READINGS", "Reading", "appended", "could_be"]


class Reading(NamedTuple):
    """A definition, as printed or read strictly."""

    definition: int
    strict: bool


READINGS: Final = tuple(Reading(definition, strict) for definition in (6, 7, 8) for strict in (False, True))


@lru_cache(maxsize=1 << 17)
def could_be(
    reading: Reading, entered: str, left: tuple[str, ...], *, quiet: bool, ordered: bool, operation: Operation
) -> bool:
    """Whether `left` could have left a system without failures when `entered` had entered.

    `quiet`: nothing is left to do. `ordered`: the system is deterministic, so there is one order of letters.
    """
    return any(
        _explains(results, left, reading.strict, quiet)
        for results in _references(reading.definition, entered, ordered, operation)
    )


def _explains(results: tuple[str, ...], left: tuple[str, ...], strict: bool, quiet: bool) -> bool:
    if not strict:
        return not Counter(left) - Counter(results)
    return results == left if quiet else results[: len(left)] == left


@lru_cache(maxsize=1 << 17)
def _references(
    definition: int, entered: str, ordered: bool, operation: Operation
) -> frozenset[tuple[str, ...]]:
    """The results of every input that the definition allows, in every order that the system allows."""
    return frozenset(
        tuple(operation(order[:end]) for end in range(1, len(order) + 1))
        for letters in _inputs(definition, entered)
        for order in map("".join, permutations(letters))
        if not ordered or _first_come(order) == "".join(sorted(set(order), key=entered.index))
    )


def _inputs(definition: int, entered: str) -> Iterator[str]:
    match definition:
        case 6:
            yield entered
        case 7:
            for count in range(len(entered) + 1):
                yield from map("".join, combinations(entered, count))
        case _:
            # Twice at most: there is one crash at most.
            for times in product((1, 2), repeat=len(entered)):
                yield "".join(letter * time for letter, time in zip(entered, times, strict=True))


def _first_come(order: str) -> str:
    """Each letter once, as they came first."""
    return "".join(dict.fromkeys(order))
