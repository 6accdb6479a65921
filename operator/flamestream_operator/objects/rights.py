"""What a driver may do: its service account, Role and RoleBinding.

Keeps: the least that Spark's Kubernetes backend needs in client mode, each rule with its reason. Does not: give workers any right (their
pods mount no token).
"""

from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object, metadata


def build_service_account(job: Object) -> Object:
    """The driver's identity."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(job, names.service_account(job["metadata"]["name"])),
        "automountServiceAccountToken": False,  # the driver's pod asks for it itself
    }


def build_role(job: Object) -> Object:
    """In the job's namespace only."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(job, names.service_account(job["metadata"]["name"])),
        "rules": [
            # Executors are made, watched, labelled when they idle, and removed at the end. Spark is told to remove nothing else
            # (flamestream.spark.streaming.kubernetes): what it removes it names by a label, and such a right is for all that there are.
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "patch", "delete", "deletecollection"]},
        ],
    }


def build_role_binding(job: Object, account: str) -> Object:
    """The Role for the driver's account, ours or the user's."""
    name = names.service_account(job["metadata"]["name"])
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(job, name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": job["metadata"]["namespace"]}],
    }
