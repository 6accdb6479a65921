"""What is said of one condition.

Does not: say it (describe.py, jobs/troubles.py).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """Whether it holds, why in one word, and what to do."""

    holds: bool
    reason: str
    message: str = ""
