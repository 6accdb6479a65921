"""The API server, as the operator uses it: whole objects as plain data, and one kind of error.

Keeps: every request is bounded in time and counted by verb and kind; a foreign error becomes an `ApiProblem`.
Does not: watch (kopf does), cache, or retry (the next reconciliation does).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, KubeConfig
from lightkube.config.client_adapter import verify_cluster
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from flamestream_operator import metrics
from flamestream_operator.kube.transport import AiohttpTransport
from flamestream_operator.objects.meta import CLUSTER_WIDE, NAMESPACED, Object, api_version

TIMEOUT: Final = 10.0
MANAGER: Final = "flamestream-operator"


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
    async def list_all(
        self, kind: str, namespace: str | None, labels: dict[str, str] | None = None
    ) -> list[Object]: ...
    async def create(self, thing: Object, *, dry_run: bool = False) -> Object: ...
    async def replace(self, thing: Object) -> Object: ...
    async def replace_status(self, thing: Object) -> Object: ...
    async def patch(
        self, kind: str, namespace: str, name: str, patch: Object, *, status: bool = False
    ) -> Object: ...
    async def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> None: ...


class LightkubeApi:
    """The real one."""

    def __init__(self, config: KubeConfig | None = None) -> None:
        found = config or KubeConfig.from_env()
        one = found.get() if isinstance(found, KubeConfig) else found
        assert one is not None and one.user is not None, "an API server that lets nobody in"
        trusted = verify_cluster(one.cluster, one.user, one.abs_file, trust_env=False)
        # No proxy of the environment between: tokens and Secrets go to the API server alone.
        common: Any = {"timeout": httpx2.Timeout(TIMEOUT), "field_manager": MANAGER, "trust_env": False}
        self._client: Any = AsyncClient(config=one, transport=AiohttpTransport(trusted), **common)
        self._streams: Any = AsyncClient(config=one, **common)
        """For what does not come whole: logs, commands in pods."""
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

    async def list_all(
        self, kind: str, namespace: str | None, labels: dict[str, str] | None = None
    ) -> list[Object]:
        """Fresh from the store; `namespace` None: of all."""
        with _asking("list", kind):
            where = {} if kind in CLUSTER_WIDE else {"namespace": namespace or "*"}
            found = [
                dict(each) async for each in self._client.list(self._kinds[kind], labels=labels, **where)
            ]
        # items of a list do not say what they are
        return [{"apiVersion": api_version(kind), "kind": kind, **each} for each in found]

    async def create(self, thing: Object, *, dry_run: bool = False) -> Object:
        """Raises ApiProblem, `exists` among others."""
        kind = self._kinds[thing["kind"]]
        with _asking("create", thing["kind"]):
            return dict(
                await self._client.create(
                    kind(thing), namespace=thing["metadata"].get("namespace"), dry_run=dry_run
                )
            )

    async def replace(self, thing: Object) -> Object:
        """A compare-and-set if `thing` has a resourceVersion."""
        kind = self._kinds[thing["kind"]]
        with _asking("update", thing["kind"]):
            return dict(await self._client.replace(kind(thing), namespace=thing["metadata"].get("namespace")))

    async def replace_status(self, thing: Object) -> Object:
        """A compare-and-set of the status alone."""
        kind = self._kinds[thing["kind"]].Status
        with _asking("update", thing["kind"]):
            return dict(
                await self._client.replace(
                    kind(thing), thing["metadata"]["name"], namespace=thing["metadata"].get("namespace")
                )
            )

    async def patch(
        self, kind: str, namespace: str, name: str, patch: Object, *, status: bool = False
    ) -> Object:
        """A merge patch."""
        resource = self._kinds[kind].Status if status else self._kinds[kind]
        with _asking("patch", kind):
            return dict(
                await self._client.patch(resource, name, patch, patch_type=PatchType.MERGE, **_in(namespace))
            )

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
            answer = await self._streams.exec(
                pod, **where, command=command, stdout=True, stderr=True, timeout=TIMEOUT
            )
        text = answer.stdout
        return text.decode() if isinstance(text, bytes) else str(text or "")

    async def attach(self, namespace: str, pod: str, container: Object) -> None:
        """Add a container to a pod that runs. Raises ApiProblem."""
        with _asking("attach", "Pod"):
            patch = {"spec": {"ephemeralContainers": [container]}}
            # adds one
            await self._client.patch(
                Pod.Ephemeralcontainers, pod, patch, namespace=namespace, patch_type=PatchType.STRATEGIC
            )

    async def log(self, namespace: str, pod: str, container: str | None = None) -> str:
        """All that a pod's only container has printed, or the one of this name."""
        with _asking("log", "Pod"):
            lines = self._streams.log(pod, namespace=namespace, container=container)
            return "\n".join([line.rstrip("\n") async for line in lines])

    async def log_lines(
        self, namespace: str, pod: str, container: str, *, tail: int | None, most: int
    ) -> list[str]:
        """The last `tail` lines that a container has printed, or the first ones, of so many bytes together."""
        found, size = list[str](), 0
        with _asking("log", "Pod"):
            lines = self._streams.log(pod, namespace=namespace, container=container, tail_lines=tail)
            async for line in lines:
                size += len(line)
                if size > most:
                    break
                found.append(line.rstrip("\n"))
        return found

    async def close(self) -> None:
        """End its connections."""
        await self._client.close()
        await self._streams.close()


@cache
def _kinds() -> dict[str, Any]:
    """The client's classes by kind, made once a process: its registry takes each kind once."""
    found: dict[str, Any] = {}
    for kinds, create in ((NAMESPACED, create_namespaced_resource), (CLUSTER_WIDE, create_global_resource)):
        found |= {
            kind: create(group, version, kind, plural) for kind, (group, version, plural) in kinds.items()
        }
    return found


def _in(namespace: str) -> dict[str, str]:
    return {"namespace": namespace} if namespace else {}


@contextmanager
def _asking(verb: str, kind: str) -> Iterator[None]:
    """Counts a request and turns the client's errors into ours."""
    metrics.api_requests.labels(verb, kind).inc()
    try:
        yield
    except ApiError as error:
        status = error.status
        raise ApiProblem(
            int(status.code or 0), str(status.reason or ""), str(status.message or error)
        ) from error
    except httpx2.HTTPStatusError as error:
        raise ApiProblem(error.response.status_code, "", str(error)) from error
    except WebSocketUpgradeError as error:  # a command in a pod is refused so, whatever the reason
        said = error.response
        raise ApiProblem(
            said.status_code, said.reason_phrase, f"{verb} {kind}: {said.reason_phrase}"
        ) from error
    # Status 0: it may have been done all the same, so whoever repeats it bears `exists` and `absent`.
    except (httpx2.HTTPError, HTTPXWSException, TimeoutError) as error:
        raise ApiProblem(0, type(error).__name__, f"{verb} {kind}: {error}") from error
