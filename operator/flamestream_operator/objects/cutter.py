"""The container that cuts a pod's network from inside: it shares that network and nothing else, and ends by
itself.

Keeps: no right on the node, one capability more than the pod has. Does not: cut (drills/cut.py).
"""

from typing import Final

from flamestream_operator.objects.meta import Object

CUTTER: Final = "flamestream-cut-"


def cutter_name(struck_at: str) -> str:
    """The name of the container for the fault of this moment: a pod may be cut several times, and each cutter
    tells of its own.

    >>> cutter_name("2026-01-01T00:00:01.500Z")
    'flamestream-cut-20260101000001500'
    """
    return CUTTER + "".join(letter for letter in struck_at if letter.isdigit())


def build_cutter(name: str, image: str, pull_policy: str, seconds: float) -> Object:
    """The container, from the operator's image."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy,
        "command": ["python3", "-m", "flamestream_operator.drills.cut", f"{seconds:g}"],
        # why the kernel has refused becomes the drill's reason
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            # added capabilities are effective for root alone: Kubernetes gives others no ambient ones
            "runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": False, "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        },
    }  # fmt: skip
