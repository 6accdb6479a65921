"""The cluster as a test asks it: the official client, waits by watch. Every call is bounded; a wait that was
in vain shows what is there.

Objects are plain data, as the API server has them, and kinds are said by name. What it refuses is an
ApiException with its own words. `kubectl` is for what a user types and the API has no single call for (a
drain, a scale by hand).

Does not: interpret what an object says (job.py and faults.py do).
"""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import kubernetes
from kubernetes.client import ApiException as ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError
from kubernetes.stream import stream
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDERR_CHANNEL, STDOUT_CHANNEL
from kubernetes.watch import Watch

Object = dict[str, Any]
CALL_WITHIN = 120.0
POLL = 0.5
OURS = "flamestream.dev/v1alpha1"
RBAC = "rbac.authorization.k8s.io/v1"
KUEUE = "kueue.x-k8s.io/v1beta2"
_VERSIONS = {
    "FlameStreamJob": OURS, "FlameStreamSnapshot": OURS, "FlameStreamDrill": OURS, "Role": RBAC,
    "RoleBinding": RBAC, "Deployment": "apps/v1", "StatefulSet": "apps/v1",
    "APIService": "apiregistration.k8s.io/v1", "HorizontalPodAutoscaler": "autoscaling/v2",
    "Lease": "coordination.k8s.io/v1", "NetworkPolicy": "networking.k8s.io/v1", "PodDisruptionBudget": "policy/v1",
    "ClusterRole": RBAC, "ClusterRoleBinding": RBAC, "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "ScaledObject": "keda.sh/v1alpha1", "ResourceFlavor": KUEUE, "ClusterQueue": KUEUE, "LocalQueue": KUEUE,
}  # fmt: skip
"""The versions of kinds outside Kubernetes' own v1."""


@cache
def _client(config: str) -> Any:
    """The cluster of a kubeconfig; "": of KUBECONFIG. (The package's types end at its functions' names.)"""
    return DynamicClient(kubernetes.config.new_client_from_config(config or None))


@dataclass(frozen=True)
class Kube:
    """One namespace; "": all of them, for what is listed."""

    namespace: str
    user: str = ""
    """The user whose rights count; "": the one of the kubeconfig."""
    config: str = ""
    """The kubeconfig of another cluster; "": the one that KUBECONFIG names."""

    def apply(self, *things: Object) -> None:
        """Create or change, by server-side apply. Raises ApiException."""
        for thing in things:
            kind = _client(self.config).resources.get(api_version=thing["apiVersion"], kind=thing["kind"])
            kind.server_side_apply(
                body=thing,
                namespace=self.namespace,
                field_manager="e2e",
                force_conflicts=True,
                **self._more(),
            )

    def get(self, kind: str, name: str) -> Object | None:
        """The object, or None."""
        try:
            return dict(
                _kind(kind, self.config).get(name=name, namespace=self.namespace, **self._more()).to_dict()
            )
        except NotFoundError:
            return None

    def list(self, kind: str, selector: str = "") -> list[Object]:
        """All of a kind here, with these labels."""
        return list(self._listed(kind, label_selector=selector)["items"])

    def _listed(self, kind: str, **chosen: str) -> Object:
        return dict(
            _kind(kind, self.config).get(namespace=self.namespace or None, **chosen, **self._more()).to_dict()
        )

    def patch(self, kind: str, name: str, change: Object, part: str = "") -> None:
        """A merge patch, of the subresource `part` if one is named. Raises ApiException."""
        whole = _kind(kind, self.config)
        patched = getattr(whole, part) if part else whole
        patched.patch(
            body=change,
            name=name,
            namespace=self.namespace,
            content_type="application/merge-patch+json",
            **self._more(),
        )

    def delete(self, kind: str, name: str, *, grace: int | None = None, within: float = CALL_WITHIN) -> None:
        """Until it is gone; with `within` 0 nobody waits. `grace`: another period than its own, in seconds.
        Absent is fine."""
        how = {"propagationPolicy": "Background", "gracePeriodSeconds": grace}
        try:
            was = _kind(kind, self.config).delete(
                name=name, namespace=self.namespace, body=how, **self._more()
            )
        except NotFoundError:
            return
        if within:
            uid = was.to_dict().get("details", {}).get("uid") or was.to_dict()["metadata"]["uid"]
            self.watch(
                kind,
                lambda there: all(each["metadata"]["uid"] != uid for each in there.values()),
                within,
                name=name,
            )

    def delete_all(self, kind: str, selector: str = "") -> None:
        """All of them, until they are gone."""
        for each in self.list(kind, selector):
            self.delete(kind, each["metadata"]["name"], within=0)
        self.watch(kind, lambda there: not there, CALL_WITHIN, selector=selector)

    def make_namespace(self) -> None:
        """This one, if it is not there."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    def unmake_namespace(self) -> None:
        """What has finalizers first, while the operator is there; the rest goes when it goes."""
        for kind, version in _VERSIONS.items():
            if version == OURS and _client(self.config).resources.search(api_version=OURS, kind=kind):
                self.delete_all(kind)
        self.delete("Namespace", self.namespace, within=0)

    def watch(
        self,
        kind: str,
        enough: Callable[[dict[str, Object]], Any],
        within: float,
        *,
        name: str = "",
        selector: str = "",
    ) -> Any:
        """Until what is there, by name, is `enough`: what that gave. Raises AssertionError, with the status
        of what is there."""
        deadline = time.monotonic() + within
        chosen = {"label_selector": selector, "field_selector": f"metadata.name={name}" if name else ""}
        there: dict[str, Object] = {}
        while (left := deadline - time.monotonic()) > 0:
            listed = self._listed(kind, **chosen)
            there = {each["metadata"]["name"]: each for each in listed["items"]}
            if found := enough(there):
                return found
            for event in self._events(kind, listed["metadata"]["resourceVersion"], left, chosen):
                each = event["object"]
                if event["type"] == "DELETED":
                    there.pop(each["metadata"]["name"], None)
                else:
                    there[each["metadata"]["name"]] = each
                if found := enough(there):
                    return found
        seen = {name: each.get("status", {}) for name, each in there.items()}
        raise AssertionError(
            f"not within {within:g} s, {kind} {name or selector}: {json.dumps(seen, default=str)[-4000:]}"
        )

    def _events(self, kind: str, version: str, seconds: float, chosen: dict[str, str]) -> Any:
        """What changes from `version` on; it ends early when the server forgets that version, or hangs up."""
        asked = {
            "namespace": self.namespace or None,
            "resource_version": version,
            **chosen,
            **self._more(seconds + 10),
        }
        try:
            yield from Watch().stream(
                _kind(kind, self.config).get, **asked, serialize=False, timeout_seconds=max(1, round(seconds))
            )
        except ApiException as error:
            if error.status != 410:
                raise

    def wait(self, kind: str, name: str, true: Callable[[Object], Any], within: float) -> Any:
        """Until something is true of the object: what `true` gave."""
        return self.watch(kind, lambda there: name in there and true(there[name]), within, name=name)

    def wait_condition(
        self, kind: str, name: str, wanted: str, within: float = CALL_WITHIN, reason: str = ""
    ) -> Object:
        """Until this condition is True, for that reason if one is named."""

        def holds(thing: Object) -> Object:
            found = condition_of(thing, wanted)
            # as kubectl: a condition that is older than the spec says nothing of it
            generation = thing["metadata"].get("generation", 0)
            new = found.get("observedGeneration", generation) >= generation
            holds = new and found.get("status") == "True" and reason in ("", found.get("reason"))
            return found if holds else {}

        return dict(self.wait(kind, name, holds, within))

    def wait_rollout(self, kind: str, name: str, within: float = CALL_WITHIN) -> None:
        """Until all pods of a Deployment or a StatefulSet are of its newest spec, and ready."""

        def is_over(thing: Object) -> bool:
            status, wanted = thing.get("status", {}), thing["spec"]["replicas"]
            counts = {status.get(count, 0) for count in ("replicas", "updatedReplicas", "readyReplicas")}
            return status.get("observedGeneration", 0) >= thing["metadata"]["generation"] and counts == {
                wanted
            }

        self.wait(kind, name, is_over, within)

    def execute(
        self, pod: str, *command: str, stdin: str = "", within: float = CALL_WITHIN, check: bool = True
    ) -> str:
        """What a command in a pod prints. Raises ApiException, or AssertionError when it fails; without
        `check` neither."""
        call = kubernetes.client.CoreV1Api(_client(self.config).client).connect_get_namespaced_pod_exec
        how = {"command": [*command], "stdin": bool(stdin), "stdout": True, "stderr": True, "tty": False}
        try:
            socket = stream(call, pod, self.namespace, **how, _preload_content=False)
        except ApiException:  # the pod is gone
            if check:
                raise
            return ""
        try:
            if stdin:
                socket.write_stdin(f"{stdin}\n")
            socket.run_forever(timeout=within)
            printed, wrong = (
                str(socket.read_channel(channel)) for channel in (STDOUT_CHANNEL, STDERR_CHANNEL)
            )
            ended = json.loads(socket.read_channel(ERROR_CHANNEL) or "{}")
        finally:
            socket.close()
            # the client's `close` leaves a connection open that the server has said farewell on
            socket.sock.shutdown()
        if check and ended.get("status") != "Success":
            raise AssertionError(
                f"{pod}: {command[:3]}: {ended.get('message', f'no end in {within:g} s')}: {wrong[-1500:]}"
            )
        return printed

    def logs(self, pod: str) -> str:
        """All that its only container has printed."""
        return self.raw(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log")

    def ask(self, pod: str, path: str, within: float = CALL_WITHIN) -> Any:
        """The JSON at `path` on port 7003 of a pod, by way of the API server: it reaches every pod."""
        return json.loads(
            self.raw(f"/api/v1/namespaces/{self.namespace}/pods/{pod}:7003/proxy{path}", within=within)
        )

    def raw(self, path: str, body: Object | None = None, within: float = CALL_WITHIN) -> str:
        """What the API server says to a GET, or to a POST of `body`. Raises ApiException."""
        answer = _client(self.config).request(
            "post" if body else "get", path, body=body, serialize=False, **self._more(within)
        )
        return str(answer.data.decode())

    def _more(self, within: float = CALL_WITHIN) -> dict[str, Any]:
        """What every request says: how long it may take, and whose it is."""
        return {
            "_request_timeout": within,
            "header_params": {"Impersonate-User": self.user} if self.user else {},
        }


def _kind(name: str, config: str) -> Any:
    return _client(config).resources.get(api_version=_VERSIONS.get(name, "v1"), kind=name)


def condition_of(thing: Object | None, kind: str) -> Object:
    """One of an object's conditions; empty if it has none of this kind."""
    return next(
        (each for each in (thing or {}).get("status", {}).get("conditions", ()) if each["type"] == kind), {}
    )


def kubectl(*words: str, within: float = CALL_WITHIN, stdin: str = "") -> str:
    """What a user types. Its output."""
    done = subprocess.run(
        ["kubectl", *words], input=stdin, capture_output=True, text=True, timeout=within, check=False
    )
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr.strip()[-1500:]}"
    return done.stdout


def until(what: str, seen: Callable[[], Any], within: float, poll: float = POLL) -> Any:
    """Wait for something true that no object says, and give it."""
    deadline = time.monotonic() + within
    while not (found := seen()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(poll)
    return found
