"""Which spec counts: the newest valid one, or the last stable one after a failed upgrade.

Keeps: a spec that cannot run never stops a stream that does. Does not: carry anything out.
"""

from dataclasses import dataclass
from typing import Any

from flamestream.model.errors import FlameStreamError
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.core.plan import Plan, needs_config_map, planned
from flamestream_operator.core.seen import Seen


@dataclass(frozen=True, slots=True)
class Wanted:
    """What should run, or why nothing can be said about it."""

    plan: Plan | None
    app_digest: str
    spec: dict[str, Any]
    refusal: str = ""
    """Why the newest spec cannot run here."""
    waits_for: str = ""
    """The ConfigMap that must be read first."""


def wanted(seen: Seen, status: JobResourceStatus) -> Wanted:
    """By the newest spec, unless that was rolled back."""
    spec = dict(seen.job.get("spec") or {})
    if status.rolled_back and status.rolled_back == seen.generation and status.last_stable is not None:
        stable = status.last_stable
        return _read(seen, dict(stable.spec), stable.application)
    name = needs_config_map(spec)
    if name and not seen.app_digest:
        return Wanted(None, "", spec, refusal=seen.app_problem, waits_for=name)
    return _read(seen, spec, seen.app_digest)


def _read(seen: Seen, spec: dict[str, Any], app_digest: str) -> Wanted:
    try:
        return Wanted(planned(seen.job, spec, seen.site, app_digest), app_digest, spec)
    except FlameStreamError as error:
        return Wanted(None, app_digest, spec, refusal=str(error))
