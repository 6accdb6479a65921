"""The inputs of a drill's decisions: the plan that was asked for, and what one look at its job and its
victims has shown.

Does not: conclude anything from it (drill.py), or look.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flamestream.job.drills.status import AuditResult, DrillStatus, Sight
from flamestream.job.status import JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPlan:
    """A drill as it was asked for. Times are seconds."""

    job: str
    target: str
    times: int = 1
    hits: bool = True
    """Whether the fault takes slots from somebody, so that a new attempt must follow."""
    lasting: float = 0.0
    """So long it goes on: a pause or a cut."""
    after: float | None = None
    """Between the job being whole and the next fault; None: by chance, from 0.2 to 3."""
    seed: int = 0
    timeout: float = 300.0
    """The job must be whole again so long after a fault."""
    audit: bool = True
    saves: bool = True
    """Whether the job takes epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillObserved:
    """Everything that a look at the job, at the victims and at the drill's own status has shown."""

    now: float
    """Seconds since 1970."""
    plan: DrillPlan
    status: DrillStatus
    job_phase: str
    """As a FlameStreamJob's status has it; "": it is not there."""
    job_uid: str = ""
    job_message: str = ""
    """Why it failed."""
    workers: int
    """As the job asks for."""
    attempt: int = 0
    """The job's, also when its coordinator is gone."""
    told: JobStatus | None
    """The coordinator's word."""
    age: float = 0.0
    """Seconds since the drill was asked for."""
    victims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Who could be struck, by name: their lives, each of which is over for good once it is gone."""
    hold: bool = False
    """No fault yet: whoever drills says when."""
    out_of_reach: str = ""
    """Why the target cannot be looked at, or struck."""
    gap_resolution_ms: float = 100.0
    """So much an output gap may be too long: workers report what they gave so often, and a killed one cannot
    any more."""
    cannot_audit: str = ""
    """Why this job's output can never be audited, as far as that is known without reading it."""
    refused: str = ""
    """Why the fault that was announced was not made."""
    sight: Sight = ""
    """The fault as it is seen now."""
    replaced: bool = True
    """Whether the victim's place is taken again."""
    audit: AuditResult | None = None
    audit_problem: str = ""
    """Why there will be no verdict of the audit."""

    @property
    def whole(self) -> bool:
        """Results flow, and every worker is there and has reported."""
        if (
            self.told is None
            or self.told.phase != "running"
            or not len(self.told.workers) >= self.workers > 0
        ):
            return False
        return all(worker.memory for worker in self.told.workers)

    @property
    def told_attempt(self) -> int:
        """As the coordinator says; 0: there is none."""
        return self.told.attempt if self.told is not None else 0

    @property
    def bundles(self) -> int:
        """Bundles that consumers have acknowledged: a count, which no clock can change."""
        return sum(worker.bundles for worker in self.told.workers) if self.told is not None else 0

    @property
    def entered(self) -> int:
        """Items that have entered on all workers."""
        return sum(worker.items_in for worker in self.told.workers) if self.told is not None else 0


def gap_since(told: JobStatus | None, struck: float) -> float | None:
    """Milliseconds of the longest stretch without output that ended after that moment (0: none that is longer
    than the resolution); None if nobody who was there before it can tell."""
    if told is None or not 0 < told.first_output < struck * 1e6:
        return None
    return next((round(length / 1000, 1) for end, length in told.gaps if end > struck * 1e6), 0.0)
