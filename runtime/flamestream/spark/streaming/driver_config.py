"""Driver configuration: the files in a driver pod's folder, which the operator wrote for it. The contract is
docs/operations/kubernetes.md.

Keeps: an unknown or missing field is an error that names file and field. Does not: read the manifest
(manifest.py).
"""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from flamestream.machine.process_shell import read_config, read_secret
from flamestream.model.errors import ManifestError
from flamestream.store.zookeeper_access import ZooKeeperAccess

if TYPE_CHECKING:
    from flamestream.job.manifest import Job

CONFIG: Final = Path("/etc/flamestream/config")
TOKEN: Final = Path("/etc/flamestream/secret/token")
ZOOKEEPER: Final = Path("/etc/flamestream/zookeeper")
APPLICATION: Final = Path("/opt/flamestream/app")
"""The folder that relative paths of the manifest start from."""


class DriverConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The configuration of one application (`a` or `b`) of a job."""

    job: str
    """NAMESPACE.NAME, the job's identity."""
    coordinator: str
    """host:port that workers dial."""
    tasks: int
    """Workers of this application, standbys included: one executor each."""
    beside: bool = False
    """A stream runs, which its workers are to take over: executors come a few at a time (gradual.py)."""
    batches: bool = False
    """Executors compute batches for a worker in the driver (`micro-batch`)."""
    image: str
    image_pull_policy: str
    pod_name_prefix: str
    executor_service_account: str = ""
    conf: dict[str, str] = {}
    driver_memory: str = "512m"
    executor_memory: str = "512m"
    executor_memory_overhead: str = "1g"
    request_cores: str = "100m"
    limit_cores: str = ""

    def spark_conf(self) -> dict[str, str]:
        """The session's settings that come from here. The user's own win, where they may."""
        conf = {
            "spark.driver.memory": self.driver_memory,
            "spark.executor.memory": self.executor_memory,
            "spark.executor.memoryOverhead": self.executor_memory_overhead,
            "spark.kubernetes.container.image.pullPolicy": self.image_pull_policy,
            "spark.kubernetes.executor.request.cores": self.request_cores,
        }
        if self.limit_cores:
            conf["spark.kubernetes.executor.limit.cores"] = self.limit_cores
        if self.executor_service_account:
            conf["spark.kubernetes.authenticate.executor.serviceAccountName"] = self.executor_service_account
        return {**conf, **self.conf}


def read_driver_config(application: str, folder: Path = CONFIG) -> DriverConfig:
    """Raises ManifestError."""
    return read_config(DriverConfig, str(folder / f"driver-{application}.json"))


def read_any_driver_config(folder: Path = CONFIG) -> DriverConfig:
    """The configuration of a pod beside a job, which is of none of its applications. Raises ManifestError."""
    found = sorted(file.stem.removeprefix("driver-") for file in folder.glob("driver-*.json"))
    if not found:
        raise ManifestError(f"{folder}: there is no driver-*.json: is this a pod beside a job?")
    return read_driver_config(found[0], folder)


def read_token(file: Path = TOKEN) -> str:
    """The job's secret. Raises ManifestError."""
    return read_secret(file, "the job's token")


def read_zookeeper(folder: Path = ZOOKEEPER) -> ZooKeeperAccess:
    """How the job may reach ZooKeeper: a file a field, all there. Raises ManifestError."""
    return ZooKeeperAccess(
        **{
            each.name: read_secret(folder / each.name, "the way to ZooKeeper")
            for each in fields(ZooKeeperAccess)
        }
    )


def read_job(folder: Path = CONFIG, base: Path = APPLICATION) -> "Job":
    """The manifest, its relative paths below `base`. Raises ManifestError."""
    from flamestream.job.manifest import parse_job  # here: a driver's JVM boots beside that import

    try:
        text = (folder / "job.json").read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"{folder / 'job.json'}: cannot read the manifest: {error.strerror}") from error
    return parse_job(text, str(base / "job.json"))
