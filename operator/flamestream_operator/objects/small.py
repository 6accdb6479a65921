"""The small objects: of a job the headless Service, the Secrets of a run and for ZooKeeper, ConfigMaps and
the disruption budget; of the operator the EndpointSlice of the coordinators' Service.

Does not: make random numbers (the shell puts the secrets in).
"""

import base64
import hashlib
import json
from dataclasses import asdict

from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.objects import names
from flamestream_operator.objects.logins import access_of
from flamestream_operator.objects.meta import JOB, MANAGED, ROLE, Object, dependent, identity, whole


def build_slice(*, service: str, namespace: str, pod: str, ip: str, port: int) -> Object:
    """The EndpointSlice of the coordinators' `service`, with its name: one address, the leader's."""
    labels = {
        "kubernetes.io/service-name": service,
        # by this Kubernetes' own controller leaves the slice alone
        "endpointslice.kubernetes.io/managed-by": "flamestream-operator",
        **MANAGED,
    }
    leader = {
        "addresses": [ip],
        "conditions": {"ready": True},
        "targetRef": {"kind": "Pod", "name": pod, "namespace": namespace},
    }
    return whole(
        "EndpointSlice", {"name": service, "namespace": namespace, "labels": labels},
        addressType="IPv6" if ":" in ip else "IPv4",
        ports=[{"name": "coordinator", "port": port, "protocol": "TCP"}], endpoints=[leader],
    )  # fmt: skip


def build_service(job: Object) -> Object:
    """Names for all pods of the job, and the target of metrics."""
    name = job["metadata"]["name"]
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB: name}}
    return dependent("Service", job, names.service(name), spec=headless)


def build_token(job: Object, run: int, token: str, spark: str = "") -> Object:
    """The secret that the workers of one run prove themselves with, and that its attempts' keys are derived
    from; and that of its Sparks, which no pod has in its environment: who may look at pods could read it
    there, and send Spark a task."""
    secrets = {"token": token, "spark": spark}
    return dependent(
        "Secret",
        job,
        names.token(job["metadata"]["name"], run),
        type="Opaque",
        immutable=True,
        stringData=secrets,
    )


def build_zookeeper(job: Object, operators: ZooKeeperAccess) -> Object:
    """The way of drivers and of the pods beside a job to ZooKeeper, a file a field. `data`: what is there is
    compared with it."""
    access = asdict(access_of(identity(job), operators))
    data = {name: base64.b64encode(value.encode()).decode() for name, value in access.items()}
    return dependent("Secret", job, names.zookeeper(job["metadata"]["name"]), type="Opaque", data=data)


def build_config(job: Object, name: str, files: dict[str, Object]) -> Object:
    """The files that a driver pod reads, as JSON: those of one launch, so it never changes."""
    return dependent(
        "ConfigMap",
        job,
        name,
        immutable=True,
        data={file: json.dumps(value, sort_keys=True) for file, value in files.items()},
    )


def digest_of_application(config_map: Object) -> str:
    """A fingerprint that tells two contents of a ConfigMap apart."""
    content = {"data": config_map.get("data") or {}, "binaryData": config_map.get("binaryData") or {}}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def build_application_copy(job: Object, config_map: Object) -> Object:
    """The application as it was when the run began: what a rollback and a late driver still find."""
    name = names.application_copy(job["metadata"]["name"], digest_of_application(config_map))
    return dependent(
        "ConfigMap",
        job,
        name,
        immutable=True,
        **{key: config_map[key] for key in ("data", "binaryData") if config_map.get(key)},
    )


def build_budget(job: Object, workers: int) -> Object:
    """Planned stops take one worker at a time. A number, not a share: Kubernetes does not know how many
    executors there should be."""
    name = job["metadata"]["name"]
    pods = {"matchLabels": {JOB: name, ROLE: "worker"}}
    # one at a time
    spec = {
        "minAvailable": max(0, workers - 1),
        "selector": pods,
        # a worker that is not connected carries nothing, and must not block a drain
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return dependent("PodDisruptionBudget", job, names.budget(name), spec=spec)
