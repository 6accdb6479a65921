"""Which spec counts: the newest valid one, or the last stable one after a failed upgrade.

Keeps: a spec that cannot run never stops a stream that does. Does not: carry anything out.
"""

from dataclasses import dataclass, replace
from typing import Any

from flamestream.model.errors import FlameStreamError
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs.observed import Seen
from flamestream_operator.jobs.plan import Plan, needs_config_map, planned


@dataclass(frozen=True, slots=True)
class Wanted:
    """What should run, or why nothing can be said about it."""

    plan: Plan | None
    app_digest: str
    spec: dict[str, Any]
    refusal: str = ""
    """Why the newest spec cannot run here."""
    waits_for: str = ""
    """The ConfigMap that must be read to know whether there is something new."""


def wanted(seen: Seen, status: JobResourceStatus) -> Wanted:
    """By the newest spec, unless that was rolled back."""
    spec = dict(seen.job.get("spec") or {})
    if is_rolled_back(seen, status) and status.last_stable is not None:
        stable = status.last_stable
        return replace(_read(seen, dict(stable.spec), stable.application), waits_for="" if seen.app_digest else needs_config_map(spec))
    name = needs_config_map(spec)
    if name and not seen.app_digest:
        return Wanted(None, "", spec, refusal=seen.app_problem, waits_for=name)
    return _read(seen, spec, seen.app_digest)


def is_rolled_back(seen: Seen, status: JobResourceStatus) -> bool:
    """Whether the newest spec and application are those that failed."""
    same = not seen.app_digest or not status.rolled_back_application or seen.app_digest == status.rolled_back_application
    return status.rolled_back == seen.generation > 0 and same


def _read(seen: Seen, spec: dict[str, Any], app_digest: str) -> Wanted:
    try:
        return Wanted(planned(seen.job, spec, seen.site, app_digest), app_digest, spec)
    except FlameStreamError as error:
        return Wanted(None, app_digest, spec, refusal=str(error))
