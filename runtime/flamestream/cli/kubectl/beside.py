"""A pod beside a job, for a moment: it has the job's image, application, volumes and keys, and runs one
command.

A job that is suspended, has ended or failed has no driver; then it is made from what the last one was
launched with.

Keeps: it is removed afterwards, also after a failure. Does not: run in the driver's pod, whose memory is the
driver's.
"""

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from flamestream.cli.kubectl.cluster import JOB, ROLE, Cluster, Object
from flamestream.job import object_names
from flamestream.job.object_names import copies_among, with_copies
from flamestream.model.errors import Retryable, UserError
from flamestream.spark.streaming.driver_config import CONFIG, ZOOKEEPER

STARTS_WITHIN: Final = 120.0
ENDS_WITHIN: Final = 30.0
POLL: Final = 0.5
_KEPT: Final = ("env", "envFrom", "image", "imagePullPolicy", "securityContext", "volumeMounts")


def pod_beside(driver: Object, job: Object, command: list[str], copies: Sequence[str] = ()) -> Object:
    """The pod to create: the driver's, with another command and without its token. `copies`: ConfigMaps of the
    applications that the job has had."""
    name = f"{job['metadata']['name'][:50]}-look-{secrets.token_hex(3)}"
    original = next(each for each in driver["spec"]["containers"] if each["name"] == "driver")
    # (!) not the run's token
    mounts = [mount for mount in original["volumeMounts"] if not _is_private(mount["name"])]
    container = {key: original[key] for key in _KEPT if key in original} | {
        "name": "look",
        "command": command,
        "volumeMounts": mounts,
    }
    container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    kept = ("affinity", "imagePullSecrets", "nodeSelector", "securityContext", "tolerations")
    spec = {key: driver["spec"][key] for key in kept if key in driver["spec"]}
    spec |= {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [volume for volume in driver["spec"]["volumes"] if not _is_private(volume["name"])],
    }
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    # The job's NetworkPolicy lets it in, while neither operator nor budget takes it for a driver or a worker.
    labels = {JOB: job["metadata"]["name"], ROLE: "look"}
    meta = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": [owner],
    }
    return with_copies({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, copies)


def as_launched(config: Object) -> Object:
    """The driver's pod, as far as `pod_beside` looks at it, from the ConfigMap of its launch."""
    read = {file: json.loads(text) for file, text in config["data"].items()}
    template = read["executor.json"]["spec"]
    told = next(value for file, value in read.items() if file.startswith("driver-"))
    container = {
        **template["containers"][0],
        "name": "driver",
        "image": told["image"],
        "imagePullPolicy": told["imagePullPolicy"],
    }
    meta, places = config["metadata"], {"config": CONFIG, "zookeeper": ZOOKEEPER}
    container["volumeMounts"] += [
        {"name": name, "mountPath": str(path), "readOnly": True} for name, path in places.items()
    ]
    access = {"secretName": object_names.zookeeper(meta["labels"][JOB]), "defaultMode": 0o440}
    volumes = [
        *template["volumes"],
        {"name": "config", "configMap": {"name": meta["name"]}},
        {"name": "zookeeper", "secret": access},
    ]
    return {"spec": {**template, "containers": [container], "volumes": volumes}}


def _config_maps(cluster: Cluster, name: str) -> list[Object]:
    found: list[Object] = cluster.get("configmaps", "-l", f"{JOB}={name}")["items"]
    return found


def _driver_of(cluster: Cluster, name: str) -> Object:
    """A driver's pod that runs, or the last that did. Raises UserError for a job that was never launched."""
    for pod in cluster.pods(name):
        if pod["metadata"]["labels"].get(ROLE) == "driver" and pod["status"].get("phase") == "Running":
            return pod
    launches = [each for each in _config_maps(cluster, name) if "-driver-" in each["metadata"]["name"]]
    if not launches:
        raise UserError(
            f"job {name!r} was never launched, so it has delivered nothing: `kubectl flamestream status "
            f"{name}` says why"
        )
    return as_launched(max(launches, key=lambda each: str(each["metadata"]["creationTimestamp"])))


@contextmanager
def beside(cluster: Cluster, name: str, command: list[str], *, earlier: bool = False) -> Iterator[str]:
    """The name of a pod that has been started with `command`. `earlier`: with the applications that the job has
    had."""
    job, copies = cluster.job(name), copies_among(_config_maps(cluster, name)) if earlier else ()
    made = cluster.create(pod_beside(_driver_of(cluster, name), job, command, copies))
    pod = made["metadata"]["name"]
    try:
        _await_start(cluster, pod)
        yield pod
    finally:
        cluster.run("delete", "pod", pod, "--wait=false", "--grace-period=0", "--force", "--ignore-not-found")


def exit_code(cluster: Cluster, pod: str) -> int:
    """The exit code of a pod whose log has ended. Raises Retryable if nobody says."""
    deadline = time.monotonic() + ENDS_WITHIN
    while time.monotonic() < deadline:
        for container in cluster.get("pod", pod)["status"].get("containerStatuses") or ():
            if ended := (container.get("state") or {}).get("terminated"):
                return int(ended["exitCode"])
        time.sleep(POLL)
    raise Retryable(f"pod {pod} does not end within {ENDS_WITHIN:g} s: try again")


def _await_start(cluster: Cluster, pod: str) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while cluster.get("pod", pod)["status"].get("phase", "Pending") == "Pending":
        if time.monotonic() > deadline:
            raise Retryable(
                f"pod {pod} does not start within {STARTS_WITHIN:g} s: `kubectl describe pod {pod}` says why"
            )
        time.sleep(POLL)


def _is_private(name: str) -> bool:
    """The job's tokens, and what Kubernetes itself puts in."""
    return name in ("secret", "queries") or name.startswith("kube-api-access")


def last_document(cluster: Cluster, pod: str) -> str:
    """The last document that a pod's command has printed when it ends; "": none."""
    said = [line for line in cluster.follow("logs", "-f", pod) if line.startswith("{")]
    return said[-1] if said else ""
