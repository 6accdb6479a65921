"""Spark's settings to run workers as pods: its Kubernetes backend in client mode, from within the driver's
own pod.

Why these: a worker's pod is an executor of one core that runs one task as long as the job lives. Spark's
defaults are for batches: it waits a second between two looks at its pods, takes half a minute to believe that
one is gone, and gives an application few executors. The driver's own requests to the API are kept few: it
watches, and polls as a fallback only.

Keeps: what a job needs cannot be overridden by the user's settings. Does not: start anything (session.py), or
say what else a pod has (the executor's pod template does, which the operator writes).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flamestream.model.errors import ManifestError

SECRET: Final = "/etc/flamestream/secret/spark"
"""Mounted in drivers and executors. Without it Spark writes its secret into its pods' environment, for all to
read who may see pods."""
DRIVER_PORT: Final = 7078
BLOCK_MANAGER_PORT: Final = 7079
CONTAINER: Final = "executor"
"""The container of the template that Spark fills in."""

_DEFAULTS: Final = {
    "spark.executor.memoryOverhead": "1g",  # Python lives there: a worker's state, not the JVM
    "spark.kubernetes.executor.request.cores": "100m",
    "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
    "spark.kubernetes.allocation.batch.delay": "200ms",
    "spark.kubernetes.executor.eventProcessingInterval": "200ms",
    "spark.kubernetes.executor.missingPodDetectDelta": "1s",
    "spark.kubernetes.executor.apiPollingInterval": "120s",
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "1s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.log.level": "WARN",
}
FOR_BATCHES: Final = {
    # A batch waits for an executor that is gone; of a stream's workers the coordinator hears itself.
    "spark.kubernetes.executor.apiPollingInterval": "5s",
    "spark.network.timeout": "10s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
"""Usual where executors compute batches; the user's own settings come behind them."""
_REQUIRED: Final = {
    "spark.executor.cores": "1",
    "spark.task.cpus": "1",
    "spark.authenticate.secret.file": SECRET,
    "spark.kubernetes.executor.podTemplateContainerName": CONTAINER,
    # the driver has no right to make one
    "spark.kubernetes.executor.disableConfigMap": "true",
    # there is none, and the driver has no right to any
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",  # the same
    "spark.driver.port": str(DRIVER_PORT),
    "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Where the driver is, and what it asks for."""

    namespace: str
    driver_pod: str
    """Its name: the executors are its dependents, they go when it goes."""
    driver_ip: str
    image: str
    pod_name_prefix: str
    executors: int
    template: str
    """Path of the executor's pod template."""
    api: str
    """URL of the API server."""

    @property
    def master(self) -> str:
        return f"k8s://{self.api}"


def kubernetes_conf(settings: KubernetesSettings, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """The session's settings, with `conf`, the user's. Raises ManifestError if the two contradict."""
    ours = {
        **_REQUIRED,
        "spark.kubernetes.namespace": settings.namespace,
        "spark.kubernetes.driver.pod.name": settings.driver_pod,
        "spark.kubernetes.container.image": settings.image,
        "spark.kubernetes.executor.podNamePrefix": settings.pod_name_prefix,
        "spark.kubernetes.executor.podTemplateFile": settings.template,
        "spark.kubernetes.allocation.batch.size": str(settings.executors),
        "spark.executor.instances": str(settings.executors),
        "spark.driver.host": settings.driver_ip,  # and no bindAddress: executors would be told that one
    }
    for name, value in (conf or {}).items():
        if ours.get(name, value) != value:
            raise ManifestError(
                f"spec.spark.conf.{name}: {value!r} is not possible on Kubernetes, FlameStream sets it: "
                "remove the line"
            )
    return {**_DEFAULTS, **(conf or {}), **ours}


def address(host: str, port: int | str) -> str:
    """host:port; an IPv6 host stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def api_server(environment: Mapping[str, str] | None = None) -> str:
    """The API server's URL as every pod is told it: by address, so that a start needs no name service. Raises
    ManifestError elsewhere."""
    given = os.environ if environment is None else environment
    host, port = given.get("KUBERNETES_SERVICE_HOST", ""), given.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    if not host:
        raise ManifestError("KUBERNETES_SERVICE_HOST is not set: this runs in a pod only")
    return f"https://{address(host, port)}"
