"""What is wrong though the job goes on, or why it does not start: the first trouble that somebody could do something about.

Does not: decide anything.
"""

from typing import Final

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs.desired import Wanted
from flamestream_operator.jobs.observed import Seen, node_of, phase_of
from flamestream_operator.jobs.word import Word
from flamestream_operator.objects.meta import Object

_PULL: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


def trouble(seen: Seen, status: JobResourceStatus, want: Wanted) -> Word | None:
    """None: nothing that is known."""
    if want.waits_for and want.refusal:
        return Word(True, "ApplicationMissing", want.refusal)
    if want.refusal and status.run.stage not in ("None", "Ended"):
        return Word(True, "SpecRefused", f"the newest spec cannot run, the one before goes on: {want.refusal}")
    if seen.secrets_problem:
        return Word(True, "SecretMissing", seen.secrets_problem)
    operation = seen.operations.get(f"{status.run.stage.lower()}/{status.run.number}")
    if operation is not None and operation.problem:
        return Word(True, f"{status.run.stage}Delayed", f"{operation.problem}; it is tried again")
    if status.rolled_back:
        failed = f"generation {status.rolled_back} failed ({status.failures.last})"
        return Word(True, "RolledBack", f"{failed}, the last stable one runs: edit the spec")
    for pod in (*seen.of_role("driver"), *seen.of_role("worker")):
        found = _of_pod(pod)
        if found is not None:
            return found
    refusal = next((refusal for key, refusal in sorted(seen.refusals.items()) if key.startswith("aside/")), None)
    if refusal is not None:
        return Word(True, refusal.reason, refusal.message)
    if status.problems:
        return Word(True, "Troubles", "; ".join(status.problems))
    return _of_placement(seen, status, want)


def _of_pod(pod: Object) -> Word | None:
    name = pod["metadata"]["name"]
    if phase_of(pod) != "Pending":
        return None
    for container in pod.get("status", {}).get("containerStatuses") or ():
        waits = (container.get("state") or {}).get("waiting") or {}
        if waits.get("reason") in _PULL:
            why = waits.get("message") or waits["reason"]
            return Word(True, "ImagePullFailed", f"pod {name} cannot get its image ({why}): look at spec.image and pods.imagePullSecrets")
        if waits.get("reason") in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
            return Word(True, "ContainerConfig", f"pod {name} cannot start: {waits.get('message')}")
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return Word(True, "Unschedulable", f"pod {name} finds no node: {condition.get('message')}")
    return None


def _of_placement(seen: Seen, status: JobResourceStatus, want: Wanted) -> Word | None:
    if want.plan is None or not want.plan.spec.high_availability or status.run.stage != "Running":
        return None
    nodes = [node_of(pod) for pod in seen.of_role("driver") if phase_of(pod) == "Running"]
    if len(nodes) == 2 and nodes[0] == nodes[1]:
        return Word(True, "OneNode", f"both applications are on node {nodes[0]}, and would be lost with it: add a node")
    return None
