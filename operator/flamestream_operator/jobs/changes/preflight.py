"""New code is tried in a pod beside the running stream before the stream is stopped for it: it must load, and
the committed snapshot must fit its graph. Then both codes interpret the records behind the committed cut (the
canary). What fails here has cost the stream nothing.

A savepoint is tried the same way before it is restored into a new job, which would have its state from then
on.

Keeps: one trial of one code; its pod is named by code and run. Does not: try what nothing runs for (a start
that fails says so itself).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from flamestream.job.moments import passed, written
from flamestream_operator.api.job_status import CanaryStatus, JobResourceStatus, PreflightStatus
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.changes.upgrade import running_of
from flamestream_operator.jobs.failures import with_refusal
from flamestream_operator.jobs.launching import files_of, launch_of
from flamestream_operator.jobs.observed import Observed, ended_containers, phase_of, said_at_end
from flamestream_operator.jobs.spec import Desired, Plan, manifest_of, needs_config_map
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object, part
from flamestream_operator.objects.pods import build_preflight_pod
from flamestream_operator.objects.rights import build_service_account
from flamestream_operator.objects.small import build_config, build_zookeeper

WITHIN = 180.0
"""Seconds; a trial that says nothing for so long is given up, and the code is tried for real."""


def with_trial(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """Begin the trial of the plan's code, or take its verdict."""
    trial = status.preflight
    # one that was refused is made again where the spec says something else: upgrade.canary: 0, for one
    again = trial is not None and trial.state == "Failed" and trial.generation != observed.generation
    if trial is None or trial.code != plan.code or again:
        pod = names.preflight(observed.name, plan.code, status.run.number, observed.generation)
        begun = PreflightStatus(
            code=plan.code,
            generation=observed.generation,
            pod=pod,
            state="Running",
            since=written(observed.now),
        )
        return replace(
            status,
            preflight=begun,
            intent=replace(status.intent, key=f"preflight/{plan.code}", generation=observed.generation),
        )
    if trial.state != "Running":
        return status
    said = _said(observed, trial)
    if said is None and not passed(observed.now, trial.since, WITHIN):
        return status
    # no verdict, or a store that is away: the start itself will tell
    told = said or {}
    trial = replace(trial, canary=_canary(told))
    if said is None or said.get("ok") or said.get("passing"):
        passed_one = replace(
            trial,
            state="Passed",
            message=str(told.get("message", ""))[:500],
            digest=str(told.get("code", "")),
        )
        return replace(status, preflight=passed_one)
    reason, text = str(said.get("reason", "PreflightFailed")), str(said.get("message", "without a word"))
    failed = replace(trial, state="Failed", message=text[:500])
    return with_refusal(observed, replace(status, preflight=failed), reason, text)


def trial_of(
    observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan
) -> Iterator[do.Action]:
    """Make the pod, and remove it when it has spoken."""
    trial = status.preflight
    if trial is None:
        return
    pod = observed.pod(trial.pod)
    if trial.state == "Running" and pod is None and plan.code == trial.code and status.run.stage != "Ended":
        runs = _that_runs(observed, status, desired)
        # Launches count from 1, so nothing is named like one of theirs.
        launch = launch_of(observed, status, desired, plan, application="a", number=0, tasks=1)
        key = f"aside/{trial.pod}"
        if not plan.spec.pods.service_account_name:
            # before the first launch there is none yet
            yield do.Ensure(build_service_account(observed.job), key)
        yield do.Ensure(build_zookeeper(observed.job, observed.site.zookeeper), key)
        if desired.app_digest and plan.spec.application.config_map:
            yield do.EnsureCopy(plan.spec.application.config_map, launch.app_config_map, key)
        yield do.Create(
            build_config(
                observed.job,
                trial.pod,
                files_of(observed, launch, desired) | _savepoint(observed, status) | _before(runs),
            ),
            key,
        )
        yield do.Create(build_preflight_pod(launch, trial.pod, "" if runs is None else runs.copy), key)
    elif trial.state != "Running" and pod is not None:
        yield do.DeletePod(trial.pod)


def taken_snapshot(observed: Observed) -> Object | None:
    """The status of the complete FlameStreamSnapshot that `restoreFrom` names."""
    status: Object = (observed.snapshot or {}).get("status") or {}
    return status if status.get("phase") == "Completed" else None


def may_restore(observed: Observed, status: JobResourceStatus) -> bool:
    """Whether what is restored has been tried, or is not there to be tried (whoever restores it says so)."""
    passed = status.preflight is not None and status.preflight.state == "Passed"
    return passed or taken_snapshot(observed) is None


def _savepoint(observed: Observed, status: JobResourceStatus) -> dict[str, Object]:
    """The file that tells tools/preflight_main.py which savepoint to try if the job has no state of its
    own."""
    taken = taken_snapshot(observed)
    if status.run.stage != "Restoring" or taken is None:
        return {}
    return {
        "savepoint.json": {
            "store": taken["store"],
            "index": taken["index"],
            "hash": taken["indexHash"],
        }
    }


@dataclass(frozen=True, slots=True)
class _Runs:
    """The code that runs, for new code to be compared with."""

    job: Object
    spec: Object
    digest: str
    copy: str
    """The ConfigMap that it is in; "": it is in an image."""


def _that_runs(observed: Observed, status: JobResourceStatus, desired: Desired) -> _Runs | None:
    """None: it is not known, or none runs."""
    if status.run.stage == "TakingOver":
        return _of_the_other(observed)
    runs = running_of(observed, status, desired)
    if runs.plan is None or runs.plan.code != status.run.code or not status.run.digest:
        return None
    copy = runs.plan.spec.application.config_map and names.application_copy(observed.name, runs.app_digest)
    active = status.run.stage in ("Starting", "Running")
    return _Runs(observed.job, runs.spec, status.run.digest, copy or "") if active else None


def _of_the_other(observed: Observed) -> _Runs | None:
    """The code of the job that this one is to go on with; its ConfigMap can be mounted beside it alone."""
    other = observed.other
    if other is None or part(other, "metadata", "namespace") != observed.job["metadata"]["namespace"]:
        return None
    digest, application = (part(other, "status", "run", name) for name in ("digest", "application"))
    name, spec = str(part(other, "metadata", "name")), other.get("spec") or {}
    copy = names.application_copy(name, str(application)) if needs_config_map(spec) else ""
    return _Runs(other, spec, str(digest), copy) if digest else None


def _before(runs: _Runs | None) -> dict[str, Object]:
    """The file that tells tools/preflight_main.py which code runs."""
    if runs is None:
        return {}
    return {"before.json": {"digest": runs.digest, "job": manifest_of(runs.job, runs.spec)}}


def _canary(said: Object) -> CanaryStatus | None:
    try:
        return msgspec.convert(said.get("canary"), CanaryStatus | None)
    except msgspec.ValidationError:  # an image of another release
        return None


def _said(observed: Observed, trial: PreflightStatus) -> Object | None:
    """The verdict, if there is one yet."""
    pod = observed.pod(trial.pod)
    refusal = observed.refusals.get(f"aside/{trial.pod}")
    if refusal is not None:
        return {"ok": False, "reason": refusal.reason, "message": refusal.message}
    return _verdict(pod) if pod is not None and phase_of(pod) in ("Succeeded", "Failed") else None


def _verdict(pod: Object) -> Object:
    for ended in ended_containers(pod):
        if said := said_at_end(str(ended.get("message") or "")):
            return said
    text = f"the trial of the new code ended without a verdict: {pod['status'].get('message', '')}"
    return {"ok": False, "reason": "PreflightFailed", "message": text}
