"""What a coordinator is told of a job, but for its secrets.

Does not: know the coordinators (coordinators.py).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """coordinators.JobToCoordinate without token and keys."""

    job: str
    workers: int
    fronts: int
    slots: int
    interval: float | None
    store: str
    run: int
    """Which token."""
