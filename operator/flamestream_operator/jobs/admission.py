"""What a job's author may choose for its pods and its store. All else about them is the operator's, and is restricted.

Whoever may write a FlameStreamJob has the operator make pods in its name, so a spec asks for no more than the cluster's owner has
allowed: `Allowed`, the chart's value `allow`. The chart's ValidatingAdmissionPolicies say the same at `kubectl apply`, and of the pods
themselves, which a driver makes with rights of its own.

>>> allowed = Allowed(images=("registry.example/team/",))
>>> allowed.has_image("registry.example/team/app:1"), allowed.has_image("registry.example/teams/app:1")
(True, False)

Keeps: what is not named is refused, with its field and the value that would allow it. Does not: look at what pods become (the policies do).
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Final

from msgspec import Meta, Struct

from flamestream.job.manifest import Spec
from flamestream.model.errors import ManifestError, UserError
from flamestream.store.places import parsed_s3

AWS: Final = "aws"
"""Among the endpoints: S3 itself, of a store that names no endpoint."""
RESTRICTED: Final = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
"""Kinds of volumes that the restricted Pod Security Standard has."""
_UNCONFINED: Final = "container.apparmor.security.beta.kubernetes.io/"
_SPARK_PODS: Final = "spark.kubernetes."
_SPARK_PACE: Final = (
    "spark.kubernetes.allocation.batch.delay", "spark.kubernetes.executor.eventProcessingInterval",
    "spark.kubernetes.executor.missingPodDetectDelta", "spark.kubernetes.executor.apiPollingInterval",
    "spark.kubernetes.executor.request.cores", "spark.kubernetes.executor.limit.cores",
)  # fmt: skip
"""Of Spark's settings for pods those that change none but their pace and processors."""
_Names = Annotated[tuple[str, ...], Meta(max_length=256)]


class Allowed(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What jobs may have beyond the least. docs/operations/kubernetes.md has the chart's values."""

    images: _Names = ()
    """Beside the operator's own: an image, or the place of images if it ends with `/`."""
    service_accounts: _Names = ()
    """For drivers, beside the one that is made for the job."""
    priority_classes: _Names = ()
    host_paths: _Names = ()
    """Folders of nodes, with all below them."""
    volumes: _Names = ()
    """Kinds of volumes beside those of the restricted Pod Security Standard; hostPath needs host_paths instead."""
    store_endpoints: _Names = (AWS,)
    """Endpoints that the operator itself talks to with a job's keys."""
    drill_namespaces: _Names = ()
    """Namespaces in which drills of jobs elsewhere may strike."""

    def has_image(self, image: str) -> bool:
        return any(image.startswith(each) if each.endswith("/") else image == each for each in self.images)

    def has_host_path(self, path: str) -> bool:
        folder = PurePosixPath(path)
        return ".." not in folder.parts and any(folder.is_relative_to(each) for each in self.host_paths)

    def refused_store(self, url: str, setting: str) -> str:
        """Why the operator does not talk to this store; "": it does. Raises UserError if it is none."""
        endpoint = parsed_s3(url, setting)[2].get("endpoint", AWS)
        if endpoint in self.store_endpoints:
            return ""
        where = "AWS's S3" if endpoint == AWS else f"the endpoint {endpoint}"
        return f"{setting}: the operator does not talk to {where}: {_ask('storeEndpoints', endpoint)}"


STRICT: Final = Allowed()
"""What the chart allows where nothing is said."""


def admit(spec: Spec, namespace: str, own: str, image: str, allowed: Allowed) -> None:
    """`own` is the operator's namespace and `image` its image. Raises ManifestError for what is not allowed."""
    for problem in _problems(spec, namespace, own, image, allowed):
        raise ManifestError(problem)


def _problems(spec: Spec, namespace: str, own: str, image: str, allowed: Allowed) -> Iterator[str]:
    pods = spec.pods
    if namespace == own:
        yield f"metadata.namespace: {namespace!r} is the operator's own, which no job runs in: create the job in another namespace"
    if not spec.checkpoint.secret:
        yield (
            "spec.checkpoint.secret: missing: the operator reads a job's store with the job's keys and never with its own. Name a Secret "
            "with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    yield from _of_store(spec.checkpoint.store, allowed)
    if spec.image and spec.image != image and not allowed.has_image(spec.image):
        yield f"spec.image: {spec.image} is not allowed here: leave it out, or {_ask('images', spec.image)}"
    if (account := pods.service_account_name) and account not in allowed.service_accounts:
        yield f"spec.pods.serviceAccountName: {account} is not allowed here: leave it out, or {_ask('serviceAccounts', account)}"
    if (priority := pods.priority_class_name) and priority not in allowed.priority_classes:
        yield f"spec.pods.priorityClassName: {priority} is not allowed here: leave it out, or {_ask('priorityClasses', priority)}"
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
    for kind in sorted(set(volume) - {"name", *RESTRICTED}):
        given = volume[kind]
        if kind != "hostPath" and kind not in allowed.volumes:
            yield f"{where} is of kind {kind}, which is not allowed here: take a persistentVolumeClaim, or {_ask('volumes', kind)}"
        elif kind == "hostPath" and not allowed.has_host_path(path := str(given.get("path", "")) if isinstance(given, dict) else ""):
            yield f"{where} is the node's folder {path!r}, which is not allowed here: {_ask('hostPaths', path)}"


def _of_settings(spec: Spec) -> Iterator[str]:
    """What would change pods behind the manifest's fields."""
    for name in spec.pods.annotations:
        if name.startswith(_UNCONFINED):
            yield f"spec.pods.annotations: {name} would change how the pods are confined: remove it"
    for name in spec.spark.conf:
        if name.startswith(_SPARK_PODS) and name not in _SPARK_PACE:
            yield f"spec.spark.conf: {name} would make other pods than the manifest says: remove it; spec.pods has what pods may have"


def _ask(value: str, what: str) -> str:
    return f"ask who runs the operator for {what!r} in the chart's allow.{value}"
