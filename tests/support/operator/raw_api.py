"""Requests to the API server as anybody, and the chart's objects as they are: what an adapter of the
operator's has no use for."""

import os
from dataclasses import dataclass
from typing import Any

import httpx2
import yaml

from support.operator.real_cluster import VARIABLE

Object = dict[str, Any]
_PLURALS = {
    "Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "Pod": "pods", "Role": "roles",
    "RoleBinding": "rolebindings", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
    "FlameStreamJob": "flamestreamjobs", "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}  # fmt: skip
_OF_NO_NAMESPACE = (
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


@dataclass(frozen=True)
class As:
    """Whose request it is; `pod`: whose token it came with. The tests' own account may speak for
    everybody."""

    user: str = ""
    pod: str = ""

    def headers(self) -> dict[str, str]:
        named = {"Impersonate-User": self.user} if self.user else {}
        # rights are not what is tried, admission is
        groups = {"Impersonate-Group": "system:masters"} if self.user else {}
        return (
            named
            | groups
            | ({"Impersonate-Extra-authentication.kubernetes.io%2Fpod-name": self.pod} if self.pod else {})
        )


ANYBODY = As()


def request(
    method: str, path: str, body: Object | None = None, who: As = ANYBODY, **headers: str
) -> httpx2.Response:
    """Whatever is answered."""
    with open(os.environ[VARIABLE]) as file:
        config = yaml.safe_load(file)
    server, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
    sent = {"Authorization": f"Bearer {token}", **who.headers(), **headers}
    with httpx2.Client(verify=False, trust_env=False, timeout=30) as client:
        return client.request(method, f"{server}{path}", json=body, headers=sent)


def refusal(method: str, path: str, body: Object | None = None, who: As = ANYBODY) -> str:
    """The server's words against it; "": it would do it."""
    answer = request(method, f"{path}?dryRun=All", body, who)
    return "" if answer.is_success else str(answer.json().get("message"))


def place(thing: Object) -> str:
    """The path of an object."""
    return f"{places(thing)}/{thing['metadata']['name']}"


def places(thing: Object) -> str:
    """The path where it is made."""
    version = thing["apiVersion"]
    meta = thing["metadata"]
    where = "" if thing["kind"] in _OF_NO_NAMESPACE else f"/namespaces/{meta['namespace']}"
    return f"{'/apis/' if '/' in version else '/api/'}{version}{where}/{_PLURALS[thing['kind']]}"


def apply(thing: Object) -> None:
    """As helm does."""
    header = {"Content-Type": "application/apply-patch+yaml"}
    answer = request("PATCH", f"{place(thing)}?fieldManager=tests&force=true", thing, ANYBODY, **header)
    assert answer.is_success, answer.text


def remove(thing: Object) -> None:
    request("DELETE", place(thing))
