"""The EndpointSlice of the coordinators' Service: one address, the leader's.

Does not: write it (operator.py does, as the leader's first act).
"""

from flamestream_operator.objects.meta import MANAGED, Object


def build_slice(*, service: str, namespace: str, pod: str, ip: str, port: int) -> Object:
    """The slice of `service`, with its name."""
    labels = {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "flamestream-operator", **MANAGED}
    leader = {"kind": "Pod", "name": pod, "namespace": namespace}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": service, "namespace": namespace, "labels": labels},
        "addressType": "IPv6" if ":" in ip else "IPv4",
        "ports": [{"name": "coordinator", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}, "targetRef": leader}],
    }
