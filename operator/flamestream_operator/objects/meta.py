"""The kinds of objects that the operator knows, and what all objects of a job have in common: labels and an
owner.

Does not: say what an object holds.
"""

from typing import Any, Final

Object = dict[str, Any]
GROUP: Final = "flamestream.dev"
JOB: Final = f"{GROUP}/job"
APPLICATION: Final = f"{GROUP}/application"
LAUNCH: Final = f"{GROUP}/launch"
ROLE: Final = f"{GROUP}/role"
SCHEDULED: Final = f"{GROUP}/scheduled"
"""Label of savepoints by the clock."""
MANAGED: Final = {"app.kubernetes.io/managed-by": "flamestream"}
CONNECTED: Final = f"{GROUP}/connected"
"""Readiness gate of a worker's pod: the coordinator knows its worker."""
ANSWERS: Final = f"{GROUP}/answers"
"""Label of the pods whose worker takes part, so that clients may ask it: the Service of queries leads to them."""
FINALIZER: Final = f"{GROUP}/cleanup"
NAMESPACED: Final = {
    "FlameStreamJob": (GROUP, "v1alpha1", "flamestreamjobs"),
    "FlameStreamSnapshot": (GROUP, "v1alpha1", "flamestreamsnapshots"),
    "FlameStreamDrill": (GROUP, "v1alpha1", "flamestreamdrills"),
    "Pod": ("", "v1", "pods"),
    "Service": ("", "v1", "services"),
    "Secret": ("", "v1", "secrets"),
    "ConfigMap": ("", "v1", "configmaps"),
    "ServiceAccount": ("", "v1", "serviceaccounts"),
    "Event": ("", "v1", "events"),
    "Role": ("rbac.authorization.k8s.io", "v1", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "v1", "rolebindings"),
    "PodDisruptionBudget": ("policy", "v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("networking.k8s.io", "v1", "networkpolicies"),
    "Lease": ("coordination.k8s.io", "v1", "leases"),
    "EndpointSlice": ("discovery.k8s.io", "v1", "endpointslices"),
}
"""Kinds with a namespace: their group, version and plural."""
CLUSTER_WIDE: Final = {
    "Node": ("", "v1", "nodes"),
    "Namespace": ("", "v1", "namespaces"),
    "TokenReview": ("authentication.k8s.io", "v1", "tokenreviews"),
    "SubjectAccessReview": ("authorization.k8s.io", "v1", "subjectaccessreviews"),
}
"""Kinds without a namespace: their group, version and plural."""


def api_version(kind: str) -> str:
    """The `apiVersion` of objects of `kind`.

    >>> api_version("Pod"), api_version("Lease")
    ('v1', 'coordination.k8s.io/v1')
    """
    group, version, _ = (NAMESPACED | CLUSTER_WIDE)[kind]
    return f"{group}/{version}" if group else version


def whole(kind: str, meta: Object, **content: Any) -> Object:
    """An object of `kind` as the API server takes it."""
    return {"apiVersion": api_version(kind), "kind": kind, "metadata": meta, **content}


def dependent(kind: str, job: Object, name: str, **content: Any) -> Object:
    """An object of `kind` that belongs to `job` and is removed with it."""
    return whole(kind, metadata(job, name), **content)


def part(thing: Object | None, *path: str) -> Any:
    """The value at a path; None if there is nothing. Any part of the way may be of any type: a schema that
    was exchanged lets all through.

    >>> part({"spec": {"job": "j"}}, "spec", "job"), part({"spec": "no"}, "spec", "job"), part(None, "spec")
    ('j', None, None)
    """
    found: Any = thing
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def own_name(job: Object) -> str:
    """NAMESPACE.NAME: what the job is called beside Kubernetes."""
    return f"{job['metadata']['namespace']}.{job['metadata']['name']}"


def identity(job: Object) -> str:
    """NAMESPACE.NAME of the job that sinks, journal, snapshots and record are called after: its own, or of one that
    it goes on with. As the status says (!): a spec alone must not lead to what is another's."""
    return str(part(job, "status", "identity") or own_name(job))


def key_beside(written: str, job: Object) -> tuple[str, str]:
    """Namespace and name of the job that is called `written`, NAME or NAMESPACE/NAME, in the spec of `job`."""
    namespace, slash, name = written.partition("/")
    return (namespace, name) if slash else (str(job["metadata"]["namespace"]), written)


def labels(job: str) -> dict[str, str]:
    """The labels of everything that belongs to `job`."""
    return {**MANAGED, JOB: job}


def pod_labels(job: str, application: str, launch: int, role: str) -> dict[str, str]:
    """The labels of a pod."""
    return {**labels(job), APPLICATION: application, LAUNCH: str(launch), ROLE: role}


def owner(thing: Object) -> Object:
    """A reference that makes the garbage collector remove the dependent with `thing`."""
    about = {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": thing["metadata"]["name"],
        "uid": thing["metadata"]["uid"],
    }
    # True would hold an owner that is deleted in the foreground until this is gone, and on some clusters
    # needs a right to the owner's finalizers.
    return {**about, "controller": True, "blockOwnerDeletion": False}


def metadata(thing: Object, name: str, more: dict[str, str] | None = None) -> Object:
    """Metadata of a dependent of the job `thing`."""
    meta, marks = thing["metadata"], {**labels(thing["metadata"]["name"]), **(more or {})}
    return {"name": name, "namespace": meta["namespace"], "labels": marks, "ownerReferences": [owner(thing)]}


def is_owned(dependent: Object, thing: Object) -> bool:
    """Whether `dependent` belongs to this life of `thing`."""
    # not its name
    return any(
        each.get("uid") == thing["metadata"]["uid"]
        for each in dependent["metadata"].get("ownerReferences") or ()
    )


def is_of_earlier_life(dependent: Object, thing: Object) -> bool:
    """Whether `dependent` belongs to another object of the same kind and name, which is no more: the garbage
    collector is on its way."""
    meta = thing["metadata"]
    owners = dependent["metadata"].get("ownerReferences") or ()
    return any(
        (each.get("kind"), each.get("name")) == (thing["kind"], meta["name"])
        and each.get("uid") != meta["uid"]
        for each in owners
    )
