"""What all objects of a job have in common: labels and an owner.

Does not: build an object.
"""

from typing import Any, Final

Object = dict[str, Any]
GROUP: Final = "flamestream.dev"
API_VERSION: Final = f"{GROUP}/v1alpha1"
JOB: Final = f"{GROUP}/job"
APPLICATION: Final = f"{GROUP}/application"
LAUNCH: Final = f"{GROUP}/launch"
ROLE: Final = f"{GROUP}/role"
SCHEDULED: Final = f"{GROUP}/scheduled"
"""Label of savepoints by the clock."""
MANAGED: Final = {"app.kubernetes.io/managed-by": "flamestream"}
CONNECTED: Final = f"{GROUP}/connected"
"""Readiness gate of a worker's pod: the coordinator knows its worker."""
FINALIZER: Final = f"{GROUP}/cleanup"


def part(thing: Object | None, *path: str) -> Any:
    """What stands at a path; None if there is nothing. What is on the way may be anything: a schema that was exchanged lets all through.

    >>> part({"spec": {"job": "j"}}, "spec", "job"), part({"spec": "no"}, "spec", "job"), part(None, "spec")
    ('j', None, None)
    """
    found: Any = thing
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def identity(job: Object) -> str:
    """NAMESPACE.NAME: what the job is called beside Kubernetes."""
    return f"{job['metadata']['namespace']}.{job['metadata']['name']}"


def labels(job: str) -> dict[str, str]:
    """The labels of everything that belongs to `job`."""
    return {**MANAGED, JOB: job}


def pod_labels(job: str, application: str, launch: int, role: str) -> dict[str, str]:
    """The labels of a pod."""
    return {**labels(job), APPLICATION: application, LAUNCH: str(launch), ROLE: role}


def owner(thing: Object) -> Object:
    """A reference that makes the garbage collector remove the dependent with `thing`."""
    meta = thing["metadata"]
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def metadata(thing: Object, name: str, more: dict[str, str] | None = None) -> Object:
    """Metadata of a dependent of the job `thing`."""
    meta = thing["metadata"]
    return {
        "name": name,
        "namespace": meta["namespace"],
        "labels": {**labels(meta["name"]), **(more or {})},
        "ownerReferences": [owner(thing)],
    }


def is_owned(dependent: Object, thing: Object) -> bool:
    """Whether `dependent` belongs to this life of `thing`."""
    return any(each.get("uid") == thing["metadata"]["uid"] for each in dependent["metadata"].get("ownerReferences") or ())


def is_of_earlier_life(dependent: Object, thing: Object) -> bool:
    """Whether `dependent` belongs to another object of the same kind and name, which is no more: the garbage collector is on its way."""
    meta = thing["metadata"]
    owners = dependent["metadata"].get("ownerReferences") or ()
    return any((each.get("kind"), each.get("name")) == (thing["kind"], meta["name"]) and each.get("uid") != meta["uid"] for each in owners)
