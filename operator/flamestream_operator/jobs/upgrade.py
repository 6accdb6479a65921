"""An upgrade at a tick: two codes beside each other in one run, until the new one has taken over.

    run.code    has the slots; its drivers are replaced as ever
    run.next    starts beside; its workers wait, with the snapshot at hand, until the coordinator makes the tick

Does not: make the tick (core/coordinator/upgrade.py), or try the code before (preflight.py).
"""

from flamestream_operator.api.job_status import DriverStatus, JobResourceStatus
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Desired, Plan


def running_of(observed: Observed, status: JobResourceStatus, desired: Desired) -> Desired:
    """The spec of the code that runs, while another one is wanted: the last stable one, if that is it."""
    stable = status.last_stable
    if desired.plan is None or desired.plan.code == status.run.code:
        return desired
    if stable is None or stable.code != status.run.code:
        return desired
    return observed.specs.read(observed.job, dict(stable.spec), observed.site, stable.application)


def needs_a_stop(status: JobResourceStatus, runs: Plan | None, wanted: Plan) -> bool:
    """Whether more is other than code: what a stream that runs on cannot change."""
    if runs is None or runs.code != status.run.code or status.run.stage != "Running":
        return True
    trial, one, other = status.preflight, runs.spec, wanted.spec
    if trial is None or not trial.digest or trial.digest == status.run.digest:
        return True  # nobody could tell the two by what workers say
    places = (
        (a, b)
        for old, new in ((one.sources, other.sources), (one.sinks, other.sinks))
        for a, b in ((old[name], its) for name, its in new.items() if name in old)
    )
    whole = (
        (one.guarantee, other.guarantee), (one.journal, other.journal),
        (one.workers.slots, other.workers.slots), (one.on_error, other.on_error),
    )  # fmt: skip
    gone = one.sources.keys() - other.sources.keys()  # all that was read of one must be in the state
    return one.batches or bool(gone) or any(a != b for a, b in (*whole, *places))


def code_of(driver: DriverStatus, status: JobResourceStatus) -> str:
    """The code that a driver's workers have loaded."""
    return driver.code or status.run.code


def desired_for(
    observed: Observed, status: JobResourceStatus, desired: Desired, driver: DriverStatus
) -> Desired:
    """The spec that a driver is made from."""
    return running_of(observed, status, desired) if code_of(driver, status) == status.run.code else desired
