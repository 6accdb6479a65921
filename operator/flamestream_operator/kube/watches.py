"""kopf's part: watches of everything that matters, each event into the cache and the job it belongs to into
the queue.

Event handlers only, level-triggered: what an event says is never acted on by itself, it is a reason to look.
kopf writes nothing (no finalizers, no annotations, no peering), so both replicas can watch and one of them
acts.

Does not: decide or write.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import kopf

from flamestream_operator.kube.cache import Cluster, Key, Store, key_of
from flamestream_operator.kube.namespaces import Namespaces
from flamestream_operator.objects.meta import GROUP, JOB, ROLE, Object, part

APPLICATION_SOURCE = f"{GROUP}/application-source"
"""Label of ConfigMaps whose changes are seen at once."""


class Watches:
    """Registers the handlers. `changed` has a queue for each kind; `chosen` is told of a namespace that is chosen from
    now on, or not any more."""

    def __init__(
        self, cluster: Cluster, changed: dict[str, Callable[[Key], None]],
        application: Callable[[str, str], None], namespaces: Namespaces,
        chosen: Callable[[str], Awaitable[None]], *, nodes: bool, drills: bool,
    ) -> None:  # fmt: skip
        self._cluster, self._changed, self._application = cluster, changed, application
        self._namespaces, self._chosen = namespaces, chosen
        self.registry = kopf.OperatorRegistry()
        login: Any = kopf.on.login
        login(registry=self.registry, id="login", errors=kopf.ErrorsMode.PERMANENT)(_login)
        watch: Any = kopf.on.event
        watch(GROUP, "v1alpha1", "flamestreamjobs", registry=self.registry, id="jobs")(self._job)
        watch(GROUP, "v1alpha1", "flamestreamsnapshots", registry=self.registry, id="snapshots")(
            self._snapshot
        )
        watch(
            "",
            "v1",
            "pods",
            labels={JOB: kopf.PRESENT, ROLE: kopf.PRESENT},
            registry=self.registry,
            id="pods",
        )(self._pod)
        watch(
            "",
            "v1",
            "configmaps",
            labels={APPLICATION_SOURCE: kopf.PRESENT},
            registry=self.registry,
            id="configmaps",
        )(self._config_map)
        if drills:
            watch(GROUP, "v1alpha1", "flamestreamdrills", registry=self.registry, id="drills")(self._drill)
        if nodes:
            watch("", "v1", "nodes", registry=self.registry, id="nodes")(self._node)
        if namespaces.are_chosen:
            watch("", "v1", "namespaces", registry=self.registry, id="namespaces")(self._namespace)

    def _put(self, store: Store, event: kopf.RawEvent, kind: str) -> None:
        thing = _plain(event)
        gone = event["type"] == "DELETED"
        if gone:
            store.drop(thing)
        if gone or store.put(thing):
            self._changed[kind](key_of(thing))

    async def _job(self, event: kopf.RawEvent, **_: object) -> None:
        self._put(self._cluster.jobs, event, "jobs")

    async def _snapshot(self, event: kopf.RawEvent, **_: object) -> None:
        self._put(self._cluster.snapshots, event, "snapshots")
        thing = _plain(event)
        namespace, name = key_of(thing)
        self._changed["jobs"]((namespace, str(part(thing, "spec", "job") or "")))
        for job in self._cluster.jobs:
            if part(job, "spec", "restoreFrom", "snapshot") == name:
                self._changed["jobs"](key_of(job))

    async def _drill(self, event: kopf.RawEvent, **_: object) -> None:
        self._put(self._cluster.drills, event, "drills")

    async def _pod(self, event: kopf.RawEvent, **_: object) -> None:
        pod = _plain(event)
        job = self._cluster.drop_pod(pod) if event["type"] == "DELETED" else self._cluster.put_pod(pod)
        if job is not None:
            self._changed["jobs"](job)

    async def _config_map(self, event: kopf.RawEvent, **_: object) -> None:
        thing = _plain(event)
        self._application(*key_of(thing))

    async def _node(self, event: kopf.RawEvent, **_: object) -> None:
        before = self._cluster.dead_nodes()
        node = _plain(event)
        if event["type"] == "DELETED":
            self._cluster.nodes.drop(node)
        else:
            self._cluster.nodes.put(_small(node))
        # nodes beat every few minutes: only a change of who is dead counts
        if self._cluster.dead_nodes() != before:
            for job in self._cluster.jobs:
                self._changed["jobs"](key_of(job))

    async def _namespace(self, event: kopf.RawEvent, **_: object) -> None:
        if self._namespaces.seen(_plain(event), gone=event["type"] == "DELETED"):
            await self._chosen(event["object"]["metadata"]["name"])


async def _login(**about: Any) -> kopf.ConnectionInfo | None:
    """As a pod, or as whoever started us by hand."""
    return kopf.login_with_service_account(**about) or kopf.login_with_kubeconfig(**about)


def _small(node: Object) -> Object:
    """The parts of a node that count: nodes are big, and beat every few minutes."""
    ready = [each for each in node.get("status", {}).get("conditions") or () if each.get("type") == "Ready"]
    meta = {key: node["metadata"].get(key) for key in ("name", "uid", "resourceVersion")}
    return {
        "metadata": meta,
        "spec": {"unschedulable": node.get("spec", {}).get("unschedulable")},
        "status": {"conditions": ready},
    }


def _plain(event: kopf.RawEvent) -> Object:
    thing: Object = {**event["object"]}
    return {
        **thing,
        "metadata": {key: value for key, value in thing["metadata"].items() if key != "managedFields"},
    }


class _NoDiffs(kopf.DiffBaseStorage):
    """No essence of an object is kept: kopf would copy each that it sees twice, whole, to tell handlers of changes what
    is new, and there are none. That was two thirds of what an event costs."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> Any:
        return {}

    def fetch(self, *, body: kopf.Body) -> None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: object) -> None:
        return None


def quiet() -> kopf.OperatorSettings:
    """kopf as a watcher: it posts nothing, keeps no state in objects, and says what matters only."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.peering.standalone = True
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = 30
    settings.watching.server_timeout = 600
    logging.getLogger("kopf").setLevel(logging.WARNING)
    return settings
