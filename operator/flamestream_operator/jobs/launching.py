"""The content of a launch's objects: everything that the pods of one start are made from.

Does not: decide when one is made (effects.py).
"""

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Desired, Plan, confined, manifest_of
from flamestream_operator.jobs.suspicion import suspects
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object
from flamestream_operator.objects.pods import Launch, build_driver_config, build_executor_template


def launch_of(
    observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan, *, application: str,
    number: int, tasks: int, beside: bool = False
) -> Launch:  # fmt: skip
    """Everything that the pods of one application's next start are made from."""
    from_config_map = plan.spec.application.config_map and desired.app_digest
    return Launch(
        job=observed.job,
        spec=plan.spec,
        application=application,
        number=number,
        tasks=tasks,
        run=status.run.number,
        image=plan.image,
        pull_policy=plan.spec.image_pull_policy
        or ("IfNotPresent" if plan.spec.image else observed.site.pull_policy),
        coordinator=observed.site.coordinator,
        beside=beside,
        avoid=tuple(sorted(suspects(observed))),
        app_config_map=names.application_copy(observed.name, desired.app_digest) if from_config_map else "",
    )


def files_of(observed: Observed, launch: Launch, desired: Desired) -> dict[str, Object]:
    """The files that a driver reads, by name."""
    return {
        "job.json": manifest_of(observed.job, confined(desired.spec, observed.site)),
        f"driver-{launch.application}.json": build_driver_config(launch),
        "executor.json": build_executor_template(launch),
    }
