"""The EndpointSlice of the coordinators' Service: one address, the leader's.

Does not: write it (operator.py does, as the leader's first act).
"""

from flamestream_operator.environment import Environment
from flamestream_operator.objects.meta import MANAGED, Object


def build_slice(env: Environment) -> Object:
    """Of the same name as the Service."""
    labels = {"kubernetes.io/service-name": env.service, "endpointslice.kubernetes.io/managed-by": "flamestream-operator", **MANAGED}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": env.service, "namespace": env.namespace, "labels": labels},
        "addressType": "IPv6" if ":" in env.ip else "IPv4",
        "ports": [{"name": "coordinator", "port": env.port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [env.ip], "conditions": {"ready": True}, "targetRef": _pod(env)}],
    }


def _pod(env: Environment) -> Object:
    return {"kind": "Pod", "name": env.pod, "namespace": env.namespace}
