"""A cache of the cluster: the newest version that was seen of each object, from watches, lists and our own
writes.

Keeps: an older version never replaces a newer one of the same life. Does not: promise to be complete or up to
date; whoever takes a step that cannot be taken back reads again.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from flamestream_operator.objects.meta import JOB, Object

Key = tuple[str, str]
"""Namespace and name."""


def key_of(thing: Object) -> Key:
    return (str(thing["metadata"].get("namespace", "")), str(thing["metadata"]["name"]))


def uid_of(thing: Object) -> str:
    return str(thing["metadata"].get("uid", ""))


def version_of(thing: Object) -> int:
    """Resource versions grow; the API promises as much since 1.35, and etcd always did so."""
    text = str(thing["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


def slim(pod: Object) -> Object:
    """The parts of a pod that somebody here reads: a thousand jobs have five thousand pods, and whole they would be
    most of this process's memory."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    return {
        "apiVersion": pod.get("apiVersion", "v1"),
        "kind": pod.get("kind", "Pod"),
        "metadata": {name: meta[name] for name in _META if name in meta},
        "spec": {name: spec[name] for name in _SPEC if name in spec}
        | {"containers": [{"name": each["name"]} for each in spec.get("containers") or ()]},
        "status": {name: status[name] for name in _STATUS if name in status},
    }


_META: Final = (
    "name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
_SPEC: Final = ("nodeName", "readinessGates", "schedulingGates")
_STATUS: Final = (
    "phase", "reason", "message", "podIP", "conditions", "containerStatuses", "ephemeralContainerStatuses",
)  # fmt: skip


class Store:
    """Objects of one kind, in the namespaces that are `chosen`."""

    def __init__(self, chosen: Callable[[str], bool] = lambda _: True) -> None:
        self._chosen = chosen
        self._things: dict[Key, Object] = {}
        self._gone: dict[str, int] = {}
        """Version at which a life (uid) ended; bounded."""

    def put(self, thing: Object) -> bool:
        """Whether it is news."""
        key, meta = key_of(thing), thing["metadata"]
        known = self._things.get(key)
        if meta.get("uid") in self._gone:  # a late event of a life that is over (!)
            return False
        if not self._chosen(
            key[0]
        ):  # also what was on its way to be written when its namespace was let go (!)
            return False
        if (
            known is not None
            and version_of(known) >= version_of(thing)
            and known["metadata"].get("uid") == meta.get("uid")
        ):
            return False
        # Who owns which field is nobody's business here, and more than half of an object.
        meta.pop("managedFields", None)
        self._things[key] = thing
        return True

    def drop(self, thing: Object) -> None:
        """Forget an object that was deleted. Another life of the same name stays."""
        key, uid = key_of(thing), uid_of(thing)
        known = self._things.get(key)
        if known is not None and uid_of(known) == uid:
            del self._things[key]
        self._gone[uid] = version_of(thing)
        while len(self._gone) > 10_000:  # bounded: the oldest end is forgotten first
            del self._gone[next(iter(self._gone))]

    def forget(self, key: Key) -> None:
        """Forget an object that a fresh read did not find."""
        known = self._things.pop(key, None)
        if known is not None:
            self._gone[uid_of(known)] = version_of(known)

    def get(self, key: Key) -> Object | None:
        return self._things.get(key)

    def lives(self) -> set[str]:
        """The uids of what is there."""
        return {uid_of(thing) for thing in self._things.values()}

    def replace_all(
        self, things: list[Object], namespace: str | None, before: Collection[str] | None = None
    ) -> None:
        """Take over a fresh list; what it lacks is gone, but for what has come since it was asked for (!). `before`:
        the `lives` then; None: those of now."""
        fresh = {key_of(thing) for thing in things}
        # The list of one namespace says nothing about the others.
        for key in [key for key in self._things if key not in fresh and namespace in (None, key[0])]:
            if before is None or uid_of(self._things[key]) in before:
                self.forget(key)
        for thing in things:
            self.put(thing)

    def keys_of(self, namespace: str) -> list[Key]:
        """Those of one namespace."""
        return [key for key in self._things if key[0] == namespace]

    def release(self, namespace: str) -> list[Key]:
        """Think no more of what a namespace has, which lives on; it may be put again. The keys."""
        keys = self.keys_of(namespace)
        for key in keys:
            del self._things[key]
        return keys

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._things.values()))

    def __len__(self) -> int:
        return len(self._things)


class Cluster:
    """All that is watched in the namespaces that are `chosen`; of pods those of the jobs that `keeps` says."""

    def __init__(
        self, keeps: Callable[[Key], bool] = lambda _: True, chosen: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._keeps = keeps
        self.jobs, self.snapshots, self.drills, self.nodes = (
            Store(chosen),
            Store(chosen),
            Store(chosen),
            Store(),
        )
        self._pods: dict[Key, Store] = {}
        """Pods, by job."""

    def put_pod(self, pod: Object) -> Key | None:
        """The job that it belongs to, if that is news."""
        job = job_of_pod(pod)
        if job is None or not self._keeps(job):
            return None
        return job if self._pods.setdefault(job, Store()).put(slim(pod)) else None

    def drop_pod(self, pod: Object) -> Key | None:
        job = job_of_pod(pod)
        if job is None or not (job in self._pods or self._keeps(job)):
            return None
        # Also of a pod that was never seen: a list that was read before may bring it yet.
        self._pods.setdefault(job, Store()).drop(pod)
        # Kept while the job is there: a store also knows whose late events are to be refused.
        if not len(self._pods[job]) and self.jobs.get(job) is None:
            del self._pods[job]
        return job

    def forget_pod(self, job: Key, name: str) -> None:
        """Forget an object that a fresh read did not find."""
        self._pods.setdefault(job, Store()).forget((job[0], name))

    def pods_of(self, job: Key) -> list[Object]:
        return list(self._pods.get(job, ()))

    def lives_of_pods(self) -> set[str]:
        """The uids of all pods."""
        return {uid for store in self._pods.values() for uid in store.lives()}

    def replace_pods(
        self, pods: list[Object], namespace: str | None, before: Collection[str] | None = None
    ) -> None:
        """Take over a fresh list of pods, as `Store.replace_all` does; `before`: the `lives_of_pods`."""
        fresh: dict[Key, list[Object]] = {}
        for pod in pods:
            job = job_of_pod(pod)
            if job is not None and self._keeps(job):
                fresh.setdefault(job, []).append(slim(pod))
        for job in {*self._pods, *fresh}:
            if namespace in (None, job[0]):
                self._pods.setdefault(job, Store()).replace_all(fresh.get(job, []), None, before)

    def release(self, namespace: str) -> list[Key]:
        """Think no more of a namespace: its jobs."""
        for job in [job for job in self._pods if job[0] == namespace]:
            del self._pods[job]
        for store in (self.snapshots, self.drills):
            store.release(namespace)
        return self.jobs.release(namespace)

    def dead_nodes(self) -> frozenset[str]:
        """Nodes that say they are not ready, or are not heard of any more. What is not watched is thought to
        live."""
        return frozenset(node["metadata"]["name"] for node in self.nodes if not _is_ready(node))

    def closed_nodes(self) -> frozenset[str]:
        """Nodes that take no new pods."""
        return frozenset(
            node["metadata"]["name"] for node in self.nodes if (node.get("spec") or {}).get("unschedulable")
        )


def job_of_pod(pod: Object) -> Key | None:
    name = (pod["metadata"].get("labels") or {}).get(JOB)
    return (str(pod["metadata"].get("namespace", "")), str(name)) if name else None


def _is_ready(node: Object) -> bool:
    for condition in node.get("status", {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True
