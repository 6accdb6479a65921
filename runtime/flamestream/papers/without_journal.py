"""The real core with its journal taken away: letters of two fronts are appended to one string, and a worker
is killed.

Guarantee `none` is the core without a journal; `at-least-once` has one, and gives everything again that a
consumer has. No epoch is committed before the crash, so the journal is all that differs.
"""

from collections.abc import Sequence
from itertools import combinations

from flamestream.papers.observed import letters_job, observed
from flamestream.papers.report import Table

JOURNAL = {"none": "no", "at-least-once": "yes", "exactly-once": "yes"}


def table(seeds: range) -> tuple[Table, bool]:
    """A row a guarantee, and whether it is the journal that makes the difference."""
    found = {
        guarantee: [observed(seed, letters_job(), guarantee).values for seed in seeds]
        for guarantee in JOURNAL
    }
    repeats = {name: sum(len(set(each)) < len(each) for each in runs) for name, runs in found.items()}
    pairs = {name: [pair for each in runs if (pair := contradiction(each))] for name, runs in found.items()}
    rows = [
        (
            name,
            journal,
            f"{repeats[name]} of {len(seeds)}",
            f"{len(pairs[name])} of {len(seeds)}",
            " then ".join(next(iter(pairs[name]), ())),
        )
        for name, journal in JOURNAL.items()
    ]
    made = Table(
        "(2) The real core: letters of two fronts are appended, a worker is killed; repeats do not count",
        ("guarantee", "journal", "repeats", "breaks definition 6", "the first"),
        tuple(rows),
    )
    held = not pairs["at-least-once"] and not pairs["exactly-once"]
    # Repeats: what a crash made the core compute again was compared, and not nothing.
    return made, held and bool(pairs["none"]) and repeats["at-least-once"] > repeats["exactly-once"] == 0


def contradiction(values: Sequence[str]) -> tuple[str, str] | None:
    """The first two results of one concatenation of which neither begins the other; None if there are none.

    >>> contradiction(["a", "ab", "a", "ac"])
    ('ab', 'ac')
    """
    for one, other in combinations(dict.fromkeys(values), 2):
        if not (one.startswith(other) or other.startswith(one)):
            return one, other
    return None
