"""What a coordinator is told of a job, but for its secrets.

Does not: know the coordinators (coordination/coordinators.py).
"""

from dataclasses import dataclass

from flamestream.core.coordinator.coordination import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """hosted.JobToCoordinate without token and keys."""

    settings: Settings
    """The coordinator's own; graph and Python come with the first worker."""
    store: str
    run: int
    """Which token."""
