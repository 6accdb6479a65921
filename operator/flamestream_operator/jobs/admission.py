"""The choices that a job's author has for its pods and its store. All else about them is the operator's, and
is restricted.

Whoever may write a FlameStreamJob has the operator make pods in its name, so a spec asks for no more than the
cluster's owner has allowed: `Allowed`, the chart's value `allow`. The chart's ValidatingAdmissionPolicies say
the same at `kubectl apply`, and of the pods themselves, which a driver makes with rights of its own.

Keeps: what is not named is refused, with its field and the value that would allow it. Does not: look at what
pods become (the policies do).
"""

from collections.abc import Iterator
from typing import Final

from flamestream.job.manifest import Spec
from flamestream.model.errors import ManifestError, UserError
from flamestream_operator.site import Allowed, ask

RESTRICTED: Final = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
"""Kinds of volumes that the restricted Pod Security Standard has."""
# An annotation too says under which AppArmor profile a container runs, also under none.
_UNCONFINED: Final = "container.apparmor.security.beta.kubernetes.io/"
_SPARK_PODS: Final = "spark.kubernetes."
_SPARK_PACE: Final = (
    "spark.kubernetes.allocation.batch.delay", "spark.kubernetes.executor.eventProcessingInterval",
    "spark.kubernetes.executor.missingPodDetectDelta", "spark.kubernetes.executor.apiPollingInterval",
    "spark.kubernetes.executor.request.cores", "spark.kubernetes.executor.limit.cores",
)  # fmt: skip
"""Spark's settings for pods that change only their pace and their processors."""


def admit(spec: Spec, namespace: str, own: str, image: str, allowed: Allowed) -> None:
    """`own` is the operator's namespace and `image` its image. Raises ManifestError for what is not
    allowed."""
    for problem in _problems(spec, namespace, own, image, allowed):
        raise ManifestError(problem)


def _problems(spec: Spec, namespace: str, own: str, image: str, allowed: Allowed) -> Iterator[str]:
    pods = spec.pods
    if namespace == own:
        yield (
            f"metadata.namespace: {namespace!r} is the operator's own, which no job runs in: create the job "
            "in another namespace"
        )
    if not spec.checkpoint.secret:
        yield (
            "spec.checkpoint.secret: missing: the operator reads a job's store with the job's keys and never "
            "with its own. Name a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    yield from _of_store(spec.checkpoint.store, allowed)
    if spec.image and spec.image != image and not allowed.has_image(spec.image):
        yield f"spec.image: {spec.image} is not allowed here: leave it out, or {ask('images', spec.image)}"
    if (account := pods.service_account_name) and account not in allowed.service_accounts:
        yield (
            f"spec.pods.serviceAccountName: {account} is not allowed here: leave it out, or "
            f"{ask('serviceAccounts', account)}"
        )
    if (priority := pods.priority_class_name) and priority not in allowed.priority_classes:
        yield (
            f"spec.pods.priorityClassName: {priority} is not allowed here: leave it out, or "
            f"{ask('priorityClasses', priority)}"
        )
    for volume in pods.volumes:
        yield from _of_volume(volume, allowed)
    yield from _of_settings(spec)


def _of_store(url: str, allowed: Allowed) -> Iterator[str]:
    try:
        problem = allowed.refused_store(url, "spec.checkpoint.store")
    except UserError as error:
        problem = str(error)
    if problem:
        yield problem


def _of_volume(volume: dict[str, object], allowed: Allowed) -> Iterator[str]:
    where = f"spec.pods.volumes: volume {volume.get('name')!r}"
    # Sorted: the first refusal is in the status, where every operator must write the same.
    for kind in sorted(set(volume) - {"name", *RESTRICTED}):
        given = volume[kind]
        if kind != "hostPath" and kind not in allowed.volumes:
            yield (
                f"{where} is of kind {kind}, which is not allowed here: take a persistentVolumeClaim, or "
                f"{ask('volumes', kind)}"
            )
        elif kind == "hostPath" and not allowed.has_host_path(
            path := str(given.get("path", "")) if isinstance(given, dict) else ""
        ):
            yield (
                f"{where} is the node's folder {path!r}, which is not allowed here: {ask('hostPaths', path)}"
            )


def _of_settings(spec: Spec) -> Iterator[str]:
    """Settings that would change pods behind the manifest's fields."""
    pods = spec.pods
    for place, annotations in (
        ("annotations", pods.annotations), ("driver.annotations", pods.driver.annotations),
        ("workers.annotations", pods.workers.annotations),
    ):  # fmt: skip
        for name in annotations:
            if name.startswith(_UNCONFINED):
                yield f"spec.pods.{place}: {name} would change how the pods are confined: remove it"
    for name in spec.spark.conf:
        if name.startswith(_SPARK_PODS) and name not in _SPARK_PACE:
            yield (
                f"spec.spark.conf: {name} would make other pods than the manifest says: remove it; spec.pods "
                "has what pods may have"
            )
