"""A driver pod's work beside and behind the boot of Spark's JVM: check the job, and run its workers until
they were told to stop.

Apart from driver_main.py, which starts the JVM, since all that is imported here takes as long as half of that
boot.

Does not: start Spark, or say how the job ended.
"""

import logging
import secrets
import threading
from functools import partial

import msgspec

from flamestream.job.manifest import Job
from flamestream.job.plan.drawing import described
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.model.errors import FlameStreamError
from flamestream.node.worker_config import worker_config
from flamestream.spark.streaming.driver_config import DriverConfig, read_zookeeper
from flamestream.spark.streaming.gradual import grow_beside
from flamestream.spark.streaming.kubernetes import DRIVER_PORT, address
from flamestream.spark.streaming.session import SparkDriver
from flamestream.spark.streaming.streaming import run_workers
from flamestream.spark.streaming.worker_main import pod_worker_main
from flamestream.store.zookeeper_access import ZooKeeperAccess

log = logging.getLogger(__name__)


def run_job(
    spark: SparkDriver, config: DriverConfig, application: str, job: Job, token: str, host: str
) -> None:
    """Until every worker was told to stop. `host`: this pod's address. Loads the application: raises
    ManifestError, GraphError, UserError; and what ended the job."""
    checked, zookeeper = checked_job(job), read_zookeeper()
    # For whoever shows the job and may not load its application.
    log.info("graph", extra={"plan": described(checked.graph)})
    if config.batches:
        _run_batches(spark, config, checked, application, zookeeper, token, host)
        return
    main = partial(pod_worker_main, _told(config, checked, token, zookeeper), application)
    over = threading.Event()
    problems: list[FlameStreamError] = []

    def ended(problem: FlameStreamError | None) -> None:
        problems.extend([problem] if problem else [])
        over.set()

    run_workers(spark.context, config.tasks, main, ended)
    if config.beside:
        grow_beside(spark.context, config.tasks, max(1, config.tasks - job.spec.workers.standby))
    over.wait()
    if problems:
        raise problems[0]


def _run_batches(
    spark: SparkDriver, config: DriverConfig, checked: CheckedJob, application: str,
    zookeeper: ZooKeeperAccess, token: str, host: str,
) -> None:  # fmt: skip
    from flamestream.spark.batches.process import Meeting, run_batches  # needs pandas

    meeting = Meeting(
        job=config.job, coordinator=config.coordinator, token=token, address=address(host, DRIVER_PORT),
        private=True,
    )  # fmt: skip
    run_batches(spark, checked, f"{application}-batches-{secrets.token_hex(4)}", meeting, zookeeper)


def _told(config: DriverConfig, checked: CheckedJob, token: str, zookeeper: ZooKeeperAccess) -> bytes:
    """The configuration of every worker, encoded."""
    told = worker_config(
        checked, coordinator=config.coordinator, token=token, job=config.job, zookeeper=zookeeper
    )
    return msgspec.json.encode(told)
