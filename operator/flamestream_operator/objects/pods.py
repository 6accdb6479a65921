"""The driver's pod, the template of its executors, and a worker's pod as Spark will make it, to be tried.

Keeps: every pod satisfies the restricted Pod Security Standard, whatever the user adds. Does not: decide when
one is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flamestream.job.manifest import Spec
from flamestream.job.manifest_cluster import Marks, Resources
from flamestream.job.object_names import with_copies
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import (
    APPLICATION,
    CONNECTED,
    JOB,
    LAUNCH,
    ROLE,
    Object,
    identity,
    labels,
    metadata,
    owner,
    pod_labels,
)
from flamestream_operator.objects.quantities import memory_of

CONFIG: Final = "/etc/flamestream/config"
SECRET: Final = "/etc/flamestream/secret"
ZOOKEEPER: Final = "/etc/flamestream/zookeeper"
APP: Final = "/opt/flamestream/app"
QUERIES: Final = "/etc/flamestream/queries"
"""The token of the job's port for queries, where it names none."""
QUERIES_TLS: Final = "/etc/flamestream/queries-tls"
"""Its certificate, where it is in a Secret."""
BEFORE: Final = "/opt/flamestream/before"
"""The application that runs, in the pod where another one is tried."""
JVM_MEMORY: Final = 512 << 20
_POD_SECURITY: Final[Object] = {
    "runAsNonRoot": True, "runAsUser": 185, "runAsGroup": 185, "fsGroup": 185,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
_CONTAINER_SECURITY: Final[Object] = {
    "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
}  # fmt: skip
_SHORT: Final = 2
"""Seconds that a pod stays bound to a node that is gone."""
HAND_OVER: Final = 4
"""Seconds that a worker lives on when its pod is to stop: the operator sees that at once and hands its slots
over, which takes some tenths of a second; if another operator is just beginning to lead, it takes as long as
that."""
SUCCEED: Final = 240
"""The same of a driver, whose workers go with it: its successor starts beside it, takes over, and then the
operator ends it sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The start of one application: everything that its pods are made from."""

    job: Object
    """The FlameStreamJob."""
    spec: Spec
    application: str
    number: int
    tasks: int
    run: int
    image: str
    pull_policy: str
    coordinator: str
    app_config_map: str = ""
    """Copy of the application's ConfigMap; "": the application is in the image, or in one of its pyFiles."""
    beside: bool = False
    """A stream runs that its workers are to take over."""
    avoid: tuple[str, ...] = ()
    """Nodes that seem to be lost, though the scheduler does not know it yet."""

    @property
    def name(self) -> str:
        """The job's."""
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.job["metadata"]["namespace"])

    @property
    def pod(self) -> str:
        """The driver pod's name."""
        return names.driver_pod(self.name, self.application, self.number)

    @property
    def account(self) -> str:
        """The driver's service account."""
        return self.spec.pods.service_account_name or names.service_account(self.name)


def build_driver_pod(launch: Launch) -> Object:
    """Client-mode PySpark, idle but for making executors."""
    meta = metadata(
        launch.job, launch.pod, pod_labels(launch.name, launch.application, launch.number, "driver")
    )
    container = {
        "name": "driver",
        "image": launch.image,
        "imagePullPolicy": launch.pull_policy,
        "args": ["driver", launch.application],
        "env": [*_downward(), *launch.spec.pods.env],
        "resources": _resources(launch.spec.driver.resources),
        "securityContext": dict(_CONTAINER_SECURITY),
        "volumeMounts": [
            *_mounts(launch), _mount("config", CONFIG, True), _mount("secret", SECRET, True),
            _mount("zookeeper", ZOOKEEPER, True),
        ],
        "lifecycle": _before_stop("python3", "-m", "flamestream.spark.streaming.driver_stay", str(SUCCEED)),
        **_credentials(launch),
    }  # fmt: skip
    volumes = [
        *_volumes(launch),
        {"name": "config", "configMap": {"name": launch.pod}},
        _secret(launch, "token", "spark"),
        _mounted("zookeeper", names.zookeeper(launch.name)),
    ]
    spec = {
        **_common(launch, "driver"),
        # a driver comes back as another launch, under a new name, and only if the operator says so
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": volumes,
    }
    # The hook's time counts within the grace.
    spec |= {
        "serviceAccountName": launch.account,
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": SUCCEED + 5,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _with_users(launch, meta, launch.spec.pods.driver),
        "spec": spec,
    }


def build_executor_template(launch: Launch) -> Object:
    """The template that Spark makes executors from."""
    meta = {"labels": pod_labels(launch.name, launch.application, launch.number, "worker")}
    container: Object = {
        "name": "executor",
        "env": [*launch.spec.pods.env],
        "resources": _others(launch.spec.workers.resources),
        "securityContext": dict(_CONTAINER_SECURITY),
        "volumeMounts": [*_mounts(launch), _mount("secret", SECRET, True)],
        "lifecycle": _before_stop("sleep", str(HAND_OVER)),
        **_credentials(launch),
    }
    volumes = [*_volumes(launch), _secret(launch, "spark")]
    if (queries := launch.spec.queries) is not None and queries.token_file is None:
        container["volumeMounts"].append(_mount("queries", QUERIES, True))
        volumes.append(_mounted("queries", names.queries(launch.name), "token"))
    if queries is not None and queries.tls is not None and queries.tls.secret is not None:
        container["volumeMounts"].append(_mount("queries-tls", QUERIES_TLS, True))
        volumes.append(_mounted("queries-tls", queries.tls.secret, "tls.crt", "tls.key"))
    spec = {
        **_common(launch, "worker"),
        "containers": [container],
        "volumes": volumes,
        "automountServiceAccountToken": False,
    }
    spec["terminationGracePeriodSeconds"] = 10
    if not launch.spec.batches:
        # or a drain takes the last that works
        spec["readinessGates"] = [{"conditionType": CONNECTED}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _with_users(launch, meta, launch.spec.pods.workers),
        "spec": spec,
    }


def build_trial_pod(launch: Launch) -> Object:
    """A worker's pod as Spark will make it, for a dry run: admission, quota and image policies say what they
    think of it."""
    pod = build_executor_template(launch)
    name = names.trial(launch.name, launch.number)
    pod["metadata"] |= {"name": name, "namespace": launch.namespace}
    asked = launch.spec.workers.resources
    memory = {"memory": str(worker_memory(launch.spec))}
    container = pod["spec"]["containers"][0]
    requests = {
        **container["resources"].get("requests", {}),
        "cpu": asked.requests.get("cpu", "100m"),
        **memory,
    }
    container |= {
        "image": launch.image,
        "args": ["executor"],
        "resources": {"requests": requests, "limits": {**asked.limits, **memory}},
    }
    return pod | {"spec": {**pod["spec"], "restartPolicy": "Never"}}


def build_driver_config(launch: Launch) -> Object:
    """driver-A.json, see docs/operations/kubernetes.md."""
    resources = launch.spec.workers.resources
    memory = worker_memory(launch.spec)
    # The rest is Python's. Rows of a batch pass through the JVM; a stream's do not.
    jvm = memory // 2 if launch.spec.batches else min(JVM_MEMORY, memory // 2)
    return {
        "job": identity(launch.job),
        "coordinator": launch.coordinator,
        "tasks": launch.tasks,
        "beside": launch.beside,
        "batches": launch.spec.batches,
        "image": launch.image,
        "imagePullPolicy": launch.pull_policy,
        "podNamePrefix": names.executor_prefix(launch.name, launch.application, launch.number),
        "conf": dict(launch.spec.spark.conf),
        "driverMemory": "512m",
        "executorMemory": f"{jvm >> 20}m",
        "executorMemoryOverhead": f"{(memory - jvm) >> 20}m",
        "requestCores": str(resources.requests.get("cpu", "100m")),
        "limitCores": str(resources.limits.get("cpu", "")),
    }


def worker_memory(spec: Spec) -> int:
    """Bytes of a worker's container: Spark makes request and limit equal."""
    resources = spec.workers.resources
    return memory_of(resources.limits.get("memory", resources.requests.get("memory", "1Gi")))


def _common(launch: Launch, role: str) -> Object:
    pods = launch.spec.pods
    common: Object = {
        "securityContext": dict(_POD_SECURITY),
        # else every Service of the namespace is in the environment that Spark and users' code read
        "enableServiceLinks": False,
        # a replica of it may be gone
        "dnsConfig": {"options": [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "4"}]},
        "tolerations": [*(dict(each) for each in pods.tolerations), *_tolerations()],
        "affinity": _affinity(launch, role),
        "nodeSelector": dict(pods.node_selector),
        "imagePullSecrets": [{"name": name} for name in pods.image_pull_secrets],
        "topologySpreadConstraints": [dict(each) for each in pods.topology_spread_constraints],
        "priorityClassName": pods.priority_class_name,
        "schedulerName": pods.scheduler_name,
    }
    # an empty value would not be what the API gives back
    return {key: value for key, value in common.items() if value not in ({}, [], None)}


def _tolerations() -> list[Object]:
    # Without these admission adds tolerations of 300 s, and pods of a lost node stay bound to it for so long.
    return [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _SHORT,
        }
        for what in ("unreachable", "not-ready")
    ]


def _affinity(launch: Launch, role: str) -> Object:
    """The user's; with two applications also: together with one's own, apart from the other. Wishes, so that
    one node is enough."""
    affinity: dict[str, Any] = {key: dict(value) for key, value in launch.spec.pods.affinity.items()}
    if launch.avoid:
        affinity["nodeAffinity"] = _elsewhere(affinity.get("nodeAffinity", {}), launch.avoid)
    if launch.spec.high_availability:
        near = _term({"matchLabels": {JOB: launch.name, APPLICATION: launch.application}})
        other = [{"key": APPLICATION, "operator": "NotIn", "values": [launch.application]}]
        far = _term({"matchLabels": {JOB: launch.name}, "matchExpressions": other})
        for kind, term in (("podAffinity", near), ("podAntiAffinity", far)):
            rules = affinity.setdefault(kind, {})
            key = "preferredDuringSchedulingIgnoredDuringExecution"
            rules[key] = [*rules.get(key, []), term]
    elif role == "worker" and "podAntiAffinity" not in affinity:
        peers = _term({"matchLabels": {JOB: launch.name, ROLE: "worker", LAUNCH: str(launch.number)}})
        affinity["podAntiAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [peers | {"weight": 50}]
        }
    return affinity


def _elsewhere(rules: Object, nodes: tuple[str, ...]) -> Object:
    """The user's rules, and not on these. Alternatives are alternatives: each gets it."""
    # No wish: the scheduler believes in the node still, and its spreading may even prefer it.
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    # One requirement a node: a field's NotIn takes a single value.
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    terms = (rules.get(key) or {}).get("nodeSelectorTerms") or [{}]
    return {
        **rules,
        key: {
            "nodeSelectorTerms": [
                {**term, "matchFields": [*term.get("matchFields", ()), *fields]} for term in terms
            ]
        },
    }


def _term(selector: Object) -> Object:
    return {
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector},
    }


def _volumes(launch: Launch) -> list[Object]:
    volumes: list[Object] = [
        {"name": "tmp", "emptyDir": {}},
        *(dict(each) for each in launch.spec.pods.volumes),
    ]
    if launch.app_config_map:
        volumes.append({"name": "application", "configMap": {"name": launch.app_config_map}})
    return volumes


def _secret(launch: Launch, *keys: str) -> Object:
    """A volume with those of the run's secrets that a pod must read."""
    return _mounted("secret", names.token(launch.name, launch.run), *keys)


def _mounted(name: str, secret: str, *keys: str) -> Object:
    """A volume of a Secret, or of some of its keys."""
    # Its files are root's and the fsGroup's: with 0440 user 185 reads them by its group.
    content: Object = {"secretName": secret, "defaultMode": 0o440}
    if keys:
        content["items"] = [{"key": key, "path": key} for key in keys]
    return {"name": name, "secret": content}


def _mounts(launch: Launch) -> list[Object]:
    # the pod's own
    mounts: list[Object] = [_mount("tmp", "/tmp"), *(dict(each) for each in launch.spec.pods.volume_mounts)]
    if launch.app_config_map:
        mounts.append(_mount("application", APP, True))
    return mounts


def _mount(name: str, path: str, read_only: bool = False) -> Object:
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}


def _credentials(launch: Launch) -> Object:
    secret = launch.spec.checkpoint.secret
    return {"envFrom": [{"secretRef": {"name": secret}}]} if secret else {}


def _before_stop(*command: str) -> Object:
    return {"preStop": {"exec": {"command": list(command)}}}


def _downward() -> list[Object]:
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def _others(resources: Resources) -> Object:
    """The resources that Spark leaves as the template has them: all but processor and memory, which it is
    told by settings of its own."""
    kept = {
        kind: {name: amount for name, amount in given.items() if name not in ("cpu", "memory")}
        for kind, given in _resources(resources).items()
    }
    return {kind: given for kind, given in kept.items() if given}


def _resources(resources: Resources) -> Object:
    return {
        key: dict(value)
        for key, value in (("requests", resources.requests), ("limits", resources.limits))
        if value
    }


def _with_users(launch: Launch, meta: Object, role: Marks) -> Object:
    """The user's labels and annotations, those of the role before those of all pods; ours win."""
    pods = launch.spec.pods
    annotations = {**pods.annotations, **role.annotations}
    return {
        **meta,
        "labels": {**pods.labels, **role.labels, **meta["labels"]},
        **({"annotations": annotations} if annotations else {}),
    }


def build_preflight_pod(launch: Launch, name: str, before: str = "") -> Object:
    """The new application, loaded beside the stream. `before`: copy of the ConfigMap of the one that runs; "":
    there is none."""
    pod = _beside(launch, name, "preflight", {})
    if before:
        pod["spec"]["volumes"].append({"name": "before", "configMap": {"name": before}})
        pod["spec"]["containers"][0]["volumeMounts"].append(_mount("before", BEFORE, True))
    return pod


def build_reading_pod(
    launch: Launch,
    of: Object,
    name: str,
    role: str,
    arguments: Sequence[str] = (),
    *,
    copies: Sequence[str] = (),
    seconds: int = 0,
) -> Object:
    """A pod beside the job that reads what the job has read and written, as a driver would: it runs the tool of its
    role with `arguments`, and is `of` an object. Its ConfigMap has its own name: no driver is needed, which a job that
    has completed does not have any more. `copies`: ConfigMaps of the applications that the job has had. `seconds`:
    after which it is ended; 0: never."""
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    pod = _beside(launch, name, role, {"resources": resources})
    pod["spec"]["containers"][0]["args"] += arguments
    if seconds:
        pod["spec"]["activeDeadlineSeconds"] = seconds
    pod = {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner(of)]}}
    return with_copies(pod, copies)


def _beside(launch: Launch, name: str, role: str, more: Object) -> Object:
    """A driver's pod that runs the tool of its role instead: no worker hangs on it, and it may not see the
    token."""
    pod = build_driver_pod(launch)
    driver = pod["spec"]["containers"][0]
    container = {key: value for key, value in driver.items() if key != "lifecycle"} | {
        "name": role,
        "args": ["python3", "-m", f"flamestream_operator.tools.{role}_main"],
        "volumeMounts": [mount for mount in driver["volumeMounts"] if mount["name"] != "secret"],
        **more,
    }
    volumes = [volume for volume in pod["spec"]["volumes"] if volume["name"] not in ("secret", "config")]
    volumes.append({"name": "config", "configMap": {"name": name}})
    spec = {
        **pod["spec"],
        "containers": [container],
        "volumes": volumes,
        "automountServiceAccountToken": False,
    }
    return {**pod, "metadata": metadata(launch.job, name, {**labels(launch.name), ROLE: role}), "spec": spec}
