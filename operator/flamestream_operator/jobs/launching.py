"""What a launch's objects are made from.

Does not: decide when one is made (effects.py).
"""

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs.desired import Wanted
from flamestream_operator.jobs.observed import Seen
from flamestream_operator.jobs.plan import Plan, manifest_of
from flamestream_operator.jobs.suspicion import suspects
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object
from flamestream_operator.objects.pods import Launch, build_driver_config, build_executor_template


def launch_of(
    seen: Seen, status: JobResourceStatus, want: Wanted, plan: Plan, *, application: str, number: int, tasks: int
) -> Launch:  # fmt: skip
    """One application's start."""
    from_config_map = plan.spec.application.config_map and want.app_digest
    return Launch(
        job=seen.job, spec=plan.spec, application=application, number=number, tasks=tasks, run=status.run.number,
        image=plan.image, pull_policy=plan.spec.image_pull_policy or ("IfNotPresent" if plan.spec.image else seen.site.pull_policy),
        coordinator=seen.site.coordinator, zookeeper=plan.zookeeper,
        avoid=tuple(sorted(suspects(seen))),
        app_config_map=names.application_copy(seen.name, want.app_digest) if from_config_map else "",
    )  # fmt: skip


def files_of(seen: Seen, launch: Launch, want: Wanted) -> dict[str, Object]:
    """What the driver reads."""
    return {
        "job.json": manifest_of(seen.job, want.spec),
        f"driver-{launch.application}.json": build_driver_config(launch),
        "executor.json": build_executor_template(launch),
    }
