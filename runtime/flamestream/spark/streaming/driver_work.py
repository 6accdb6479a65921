"""A driver pod's work beside and behind the boot of Spark's JVM: check the job, and run its workers until
they were told to stop.

Apart from driver_main.py, which starts the JVM, since all that is imported here takes as long as half of that
boot.

Does not: start Spark, or say how the job ended.
"""

import threading
from functools import partial

import msgspec

from flamestream.job.manifest import Job
from flamestream.job.validation import checked_job
from flamestream.model.errors import FlameStreamError
from flamestream.node.worker_config import worker_config
from flamestream.spark.streaming.driver_config import DriverConfig, read_zookeeper
from flamestream.spark.streaming.session import SparkDriver
from flamestream.spark.streaming.streaming import run_workers
from flamestream.spark.streaming.worker_main import pod_worker_main
from flamestream.store.zookeeper_access import ZooKeeperAccess


def run_job(spark: SparkDriver, config: DriverConfig, application: str, job: Job, token: str) -> None:
    """Until every worker was told to stop. Loads the application: raises ManifestError, GraphError,
    UserError; and what ended the job."""
    main = partial(pod_worker_main, _told(config, job, token, read_zookeeper()), application)
    over = threading.Event()
    problems: list[FlameStreamError] = []

    def ended(problem: FlameStreamError | None) -> None:
        problems.extend([problem] if problem else [])
        over.set()

    run_workers(spark.context, config.tasks, main, ended)
    over.wait()
    if problems:
        raise problems[0]


def _told(config: DriverConfig, job: Job, token: str, zookeeper: ZooKeeperAccess) -> bytes:
    """The configuration of every worker, encoded."""
    told = worker_config(
        checked_job(job), coordinator=config.coordinator, token=token, job=config.job, zookeeper=zookeeper
    )
    return msgspec.json.encode(told)
