"""The API server, as the operator uses it: whole objects as plain data, and one kind of error.

Keeps: every request is bounded in time and counted by verb and kind; a foreign error becomes an `ApiProblem`. Does not: watch (kopf
does), cache, or retry (the next reconciliation does).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from flamestream_operator import metrics
from flamestream_operator.objects.meta import GROUP, Object

TIMEOUT: Final = 10.0
MANAGER: Final = "flamestream-operator"
_NAMESPACED: Final = {
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
_GLOBAL: Final = {
    "Node": ("", "v1", "nodes"),
    "TokenReview": ("authentication.k8s.io", "v1", "tokenreviews"),
    "SubjectAccessReview": ("authorization.k8s.io", "v1", "subjectaccessreviews"),
}


@dataclass(eq=False)  # not frozen: a context manager that passes it on sets its traceback
class ApiProblem(Exception):
    """The API server said no, or nothing (status 0)."""

    status: int
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason or 'no answer'} ({self.status}): {self.message}"

    @property
    def conflict(self) -> bool:
        """Somebody else has written the object since."""
        return self.status == 409 and self.reason == "Conflict"

    @property
    def exists(self) -> bool:
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def absent(self) -> bool:
        return self.status == 404

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later without anybody's doing."""
        return self.status in (0, 408, 429) or self.status >= 500


class Api(Protocol):
    """The API server as the shell needs it. `thing` is always a whole object."""

    async def get(self, kind: str, namespace: str, name: str) -> Object | None: ...
    async def list_all(self, kind: str, namespace: str | None, labels: dict[str, str] | None = None) -> list[Object]: ...
    async def create(self, thing: Object, *, dry_run: bool = False) -> Object: ...
    async def replace(self, thing: Object) -> Object: ...
    async def replace_status(self, thing: Object) -> Object: ...
    async def patch(self, kind: str, namespace: str, name: str, patch: Object, *, status: bool = False) -> Object: ...
    async def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> None: ...


class LightkubeApi:
    """The real one."""

    def __init__(self, config: KubeConfig | None = None) -> None:
        timeout = httpx2.Timeout(TIMEOUT)
        self._client: Any = AsyncClient(config=config or KubeConfig.from_env(), timeout=timeout, field_manager=MANAGER, trust_env=False)
        self._kinds = _kinds()

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """None: it is not there."""
        try:
            with _asking("get", kind):
                return dict(await self._client.get(self._kinds[kind], name, **_in(namespace)))
        except ApiProblem as problem:
            if problem.absent:
                return None
            raise

    async def list_all(self, kind: str, namespace: str | None, labels: dict[str, str] | None = None) -> list[Object]:
        """Fresh from the store; `namespace` None: of all."""
        with _asking("list", kind):
            where = {} if kind in _GLOBAL else {"namespace": namespace or "*"}
            found = [dict(each) async for each in self._client.list(self._kinds[kind], labels=labels, **where)]
        version, known = _version(kind)
        return [{"apiVersion": version, "kind": known, **each} for each in found]

    async def create(self, thing: Object, *, dry_run: bool = False) -> Object:
        """Raises ApiProblem, `exists` among others."""
        kind = self._kinds[thing["kind"]]
        with _asking("create", thing["kind"]):
            return dict(await self._client.create(kind(thing), namespace=thing["metadata"].get("namespace"), dry_run=dry_run))

    async def replace(self, thing: Object) -> Object:
        """A compare-and-set if `thing` has a resourceVersion."""
        kind = self._kinds[thing["kind"]]
        with _asking("update", thing["kind"]):
            return dict(await self._client.replace(kind(thing), namespace=thing["metadata"].get("namespace")))

    async def replace_status(self, thing: Object) -> Object:
        """A compare-and-set of the status alone."""
        kind = self._kinds[thing["kind"]].Status
        with _asking("update", thing["kind"]):
            return dict(await self._client.replace(kind(thing), thing["metadata"]["name"], namespace=thing["metadata"].get("namespace")))

    async def patch(self, kind: str, namespace: str, name: str, patch: Object, *, status: bool = False) -> Object:
        """A merge patch."""
        resource = self._kinds[kind].Status if status else self._kinds[kind]
        with _asking("patch", kind):
            return dict(await self._client.patch(resource, name, patch, patch_type=PatchType.MERGE, **_in(namespace)))

    async def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> None:
        """Absent is fine."""
        try:
            with _asking("delete", kind):
                await self._client.delete(self._kinds[kind], name, grace_period=grace, **_in(namespace))
        except ApiProblem as problem:
            if not problem.absent:
                raise

    async def execute(self, namespace: str, pod: str, container: str, command: list[str]) -> str:
        """Run a command in a container: what it prints. Raises ApiProblem."""
        where = {"namespace": namespace, "container": container}
        with _asking("exec", "Pod"):
            answer = await self._client.exec(pod, **where, command=command, stdout=True, stderr=True, timeout=TIMEOUT)
        text = answer.stdout
        return text.decode() if isinstance(text, bytes) else str(text or "")

    async def attach(self, namespace: str, pod: str, container: Object) -> None:
        """Add a container to a pod that runs. Raises ApiProblem."""
        with _asking("attach", "Pod"):
            patch = {"spec": {"ephemeralContainers": [container]}}
            await self._client.patch(Pod.Ephemeralcontainers, pod, patch, namespace=namespace, patch_type=PatchType.STRATEGIC)

    async def log(self, namespace: str, pod: str, container: str | None = None) -> str:
        """All that a pod's only container has printed, or the one of this name."""
        with _asking("log", "Pod"):
            lines = self._client.log(pod, namespace=namespace, container=container)
            return "\n".join([line.rstrip("\n") async for line in lines])

    async def close(self) -> None:
        """End its connections."""
        await self._client.close()


@cache
def _kinds() -> dict[str, Any]:
    """Once a process: the client's registry takes each kind once."""
    found: dict[str, Any] = {kind: create_namespaced_resource(*_named(kind)) for kind in _NAMESPACED}
    return found | {kind: create_global_resource(*_named(kind)) for kind in _GLOBAL}


def _in(namespace: str) -> dict[str, str]:
    return {"namespace": namespace} if namespace else {}


def _named(kind: str) -> tuple[str, str, str, str]:
    group, version, plural = (_NAMESPACED | _GLOBAL)[kind]
    return group, version, kind, plural


def _version(kind: str) -> tuple[str, str]:
    """Items of a list do not say what they are."""
    group, version, _ = (_NAMESPACED | _GLOBAL)[kind]
    return (f"{group}/{version}" if group else version), kind


class _asking:  # reads as a sentence
    """Counts a request and turns the client's errors into ours."""

    def __init__(self, verb: str, kind: str) -> None:
        self._verb, self._kind = verb, kind

    def __enter__(self) -> None:
        metrics.api_requests.labels(self._verb, self._kind).inc()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ApiError):
            status = error.status
            raise ApiProblem(int(status.code or 0), str(status.reason or ""), str(status.message or error)) from error
        if isinstance(error, httpx2.HTTPStatusError):
            raise ApiProblem(error.response.status_code, "", str(error)) from error
        if isinstance(error, WebSocketUpgradeError):  # a command in a pod is refused so, whatever the reason
            said = error.response
            raise ApiProblem(said.status_code, said.reason_phrase, f"{self._verb} {self._kind}: {said.reason_phrase}") from error
        if isinstance(error, httpx2.HTTPError | HTTPXWSException | TimeoutError):
            raise ApiProblem(0, type(error).__name__, f"{self._verb} {self._kind}: {error}") from error
