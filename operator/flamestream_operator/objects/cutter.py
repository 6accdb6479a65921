"""The container that cuts a pod's network from inside: it shares that network and nothing else, and ends by itself.

Keeps: no right on the node, one capability more than the pod has. Does not: cut (cut.py).
"""

import secrets
from typing import Final

from flamestream_operator.objects.meta import Object

CUTTER: Final = "flamestream-cut-"


def build_cutter(pod: Object, seconds: float) -> Object:
    """Of the pod's own image, which is there. A pod may be cut several times: a container's name counts once."""
    container = pod["spec"]["containers"][0]
    return {
        "name": f"{CUTTER}{secrets.token_hex(4)}",
        "image": container["image"],
        "imagePullPolicy": container.get("imagePullPolicy", "IfNotPresent"),
        "command": ["python3", "-m", "flamestream_operator.cut", f"{seconds:g}"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        },
    }  # fmt: skip
