"""A small API server in memory, and the cluster behind it: deterministic, with every way in which a real one
surprises.

It keeps resource versions, compare-and-sets, finalizers, owner references with garbage collection, and a log
of changes that readers follow at their own pace (stale caches) or with gaps (missed events). `before` and
`after` are called around every write: to fail it, to fail its answer only, or to stop the caller there.

Held to the real thing by tests/integration/operator, which runs the same adapter against an API server.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import Object

Id = tuple[str, str, str]


T = TypeVar("T")


class FakeKubernetes:
    """Whole objects by kind, namespace, name."""

    def __init__(self) -> None:
        self.things: dict[Id, Object] = {}
        self.log: list[tuple[str, Object]] = []
        """(type, object as it was), in order: what a watch would give."""
        self.version = 0
        self.uids = 0
        self.requests = 0
        self.before: Callable[[str, str], None] = lambda verb, kind: None
        self.after: Callable[[str, str], None] = lambda verb, kind: None
        self.refuse: Callable[[Object], ApiProblem | None] = lambda thing: None
        self.created: list[tuple[str, str, str]] = []
        """kind, name, uid of everything that was ever made."""

    # --- what the adapter offers ----------------------------------------------------------------------------

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        self.requests += 1
        return copy.deepcopy(self.things.get((kind, namespace, name)))

    async def list_all(
        self, kind: str, namespace: str | None, labels: dict[str, str] | None = None
    ) -> list[Object]:
        self.requests += 1
        return [
            copy.deepcopy(thing)
            for thing in self.of(kind)
            if namespace in (None, thing["metadata"]["namespace"])
        ]

    async def create(self, thing: Object, *, dry_run: bool = False) -> Object:
        return self._write("create", thing["kind"], lambda: self.make(thing, dry_run=dry_run))

    async def replace(self, thing: Object) -> Object:
        return self._write(
            "update",
            thing["kind"],
            lambda: self._replace(thing, lambda now: {**copy.deepcopy(thing), "status": now.get("status")}),
        )

    async def replace_status(self, thing: Object) -> Object:
        def work() -> Object:
            return self._replace(thing, lambda now: {**now, "status": copy.deepcopy(thing["status"])})

        return self._write("update", thing["kind"], work)

    async def patch(
        self, kind: str, namespace: str, name: str, patch: Object, *, status: bool = False
    ) -> Object:
        return self._write("patch", kind, lambda: self.merge((kind, namespace, name), patch))

    async def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> None:
        key = (kind, namespace, name)
        if grace is not None and key in self.things and self.things[key]["metadata"].get("finalizers"):
            self.merge(key, {"metadata": {"deletionGracePeriodSeconds": grace}})  # it may be shortened
        self._write("delete", kind, lambda: self.remove(key) if key in self.things else None)

    def _write(self, verb: str, kind: str, work: Callable[[], T]) -> T:
        self.requests += 1
        self.before(verb, kind)
        result = work()
        self.after(verb, kind)
        return copy.deepcopy(result)

    # --- what happens in it ---------------------------------------------------------------------------------

    def of(self, kind: str) -> Iterator[Object]:
        return iter([thing for (each, _, _), thing in sorted(self.things.items()) if each == kind])

    def make(self, thing: Object, *, dry_run: bool = False) -> Object:
        """By anybody."""
        refusal = self.refuse(thing)
        if refusal is not None:
            raise refusal
        meta = thing["metadata"]
        account = thing.get("spec", {}).get("serviceAccountName") if thing["kind"] == "Pod" else None
        if account and ("ServiceAccount", meta["namespace"], account) not in self.things:
            raise ApiProblem(
                403, "Forbidden", f"pods {meta['name']!r} is forbidden: serviceaccount {account!r} not found"
            )
        key = (thing["kind"], meta["namespace"], meta["name"])
        if key in self.things:
            raise ApiProblem(409, "AlreadyExists", f"{key} already exists")
        if dry_run:
            return thing
        self.uids += 1
        made = copy.deepcopy(thing)
        made["metadata"] |= {"uid": f"uid-{self.uids}", "generation": 1}
        if thing["kind"] == "Secret" and "stringData" in made:
            import base64

            made["data"] = {
                name: base64.b64encode(text.encode()).decode()
                for name, text in made.pop("stringData").items()
            }
        self.created.append((thing["kind"], meta["name"], made["metadata"]["uid"]))
        return self._put(key, made, "ADDED")

    def _replace(self, thing: Object, fresh: Callable[[Object], Object]) -> Object:
        key = (thing["kind"], thing["metadata"]["namespace"], thing["metadata"]["name"])
        now = self.things.get(key)
        if now is None:
            raise ApiProblem(404, "NotFound", str(key))
        given = thing["metadata"].get("resourceVersion")
        if given and given != now["metadata"]["resourceVersion"]:
            raise ApiProblem(409, "Conflict", "the object has been modified")
        meta = {
            name: thing["metadata"][name] for name in ("labels", "annotations") if name in thing["metadata"]
        }
        return self._put(
            key, {**fresh(now), "metadata": {**now["metadata"], **copy.deepcopy(meta)}}, "MODIFIED"
        )

    def merge(self, key: Id, patch: Object) -> Object:
        """A merge patch; a change of the spec is a new generation."""
        now = self.things.get(key)
        if now is None:
            raise ApiProblem(404, "NotFound", str(key))
        given = (patch.get("metadata") or {}).get("resourceVersion")
        if given and given != now["metadata"]["resourceVersion"]:
            raise ApiProblem(409, "Conflict", "the object has been modified")
        fresh: Object = _merged(now, patch)
        if fresh.get("spec") != now.get("spec"):
            fresh["metadata"]["generation"] = int(now["metadata"]["generation"]) + 1
        if fresh["metadata"].get("deletionTimestamp") and not fresh["metadata"].get("finalizers"):
            self._drop(key)
            return fresh
        return self._put(key, fresh, "MODIFIED")

    def remove(self, key: Id) -> None:
        """As somebody's delete."""
        now = self.things.get(key)
        if now is None:
            raise ApiProblem(404, "NotFound", str(key))
        if now["metadata"].get("finalizers"):
            if not now["metadata"].get("deletionTimestamp"):
                self.merge(key, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
            return
        self._drop(key)

    def collect(self) -> None:
        """What belongs to somebody who is no more, goes: also if it was made after the owner's end."""
        alive = {thing["metadata"]["uid"] for thing in self.things.values()}
        for key, thing in list(self.things.items()):
            owners = thing["metadata"].get("ownerReferences") or ()
            if key in self.things and owners and not any(each["uid"] in alive for each in owners):
                self._drop(key)

    def _put(self, key: Id, thing: Object, kind: str) -> Object:
        self.version += 1
        thing = {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(self.version)}}
        self.things[key] = thing
        self.log.append((kind, copy.deepcopy(thing)))
        return thing

    def _drop(self, key: Id) -> None:
        """With everything that it owns."""
        gone = self.things.pop(key)
        self.version += 1
        self.log.append(
            (
                "DELETED",
                copy.deepcopy(
                    {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
                ),
            )
        )
        uid = gone["metadata"]["uid"]
        for other, thing in list(self.things.items()):
            if other in self.things and any(
                each["uid"] == uid for each in thing["metadata"].get("ownerReferences") or ()
            ):
                self._drop(other)


def _merged(now: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(now, dict):
        return copy.deepcopy(patch)
    fresh = dict(now)
    for name, value in patch.items():
        if value is None:
            fresh.pop(name, None)
        else:
            fresh[name] = _merged(now.get(name), value)
    return fresh
