"""The rights of a driver: its service account, Role and RoleBinding.

Keeps: the least that Spark's Kubernetes backend needs in client mode, each rule with its reason. Does not:
give workers any right (their pods mount no token).
"""

from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object, dependent


def build_service_account(job: Object) -> Object:
    """The driver's identity. It mounts no token by itself: the driver's pod asks for one."""
    return dependent(
        "ServiceAccount",
        job,
        names.service_account(job["metadata"]["name"]),
        automountServiceAccountToken=False,
    )


def build_role(job: Object) -> Object:
    """The Role of drivers, in the job's namespace only."""
    # Executors are made, watched, labelled when they idle, and removed at the end. Spark is told to remove
    # nothing else (flamestream.spark.streaming.kubernetes): what it removes it names by a label, and such a
    # right is for all that there are.
    rule = {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete", "deletecollection"],
    }
    return dependent("Role", job, names.service_account(job["metadata"]["name"]), rules=[rule])


def build_role_binding(job: Object, account: str) -> Object:
    """The Role for the driver's account, ours or the user's."""
    name = names.service_account(job["metadata"]["name"])
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": job["metadata"]["namespace"]}
    return dependent("RoleBinding", job, name, roleRef=role, subjects=[subject])
