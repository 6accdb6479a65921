"""The driver pod of one application: starts Spark, runs the job's workers as its tasks, and says how that
ended.

The application is loaded and checked here, in the user's pod, while Spark's JVM boots beside it, and what
that needs is imported then: all imports together take half of that boot. What the operator must know of the
end is the exit code and the termination message (docs/operations/kubernetes.md).

Keeps: the JVM ends with this process. Does not: coordinate (the workers dial the operator), or touch the
job's data.
"""

import argparse
import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from flamestream.job.exit_codes import ended_by
from flamestream.machine import process_shell
from flamestream.model.errors import FlameStreamError, ManifestError
from flamestream.spark.frames.session import frames_settings
from flamestream.spark.streaming.driver_config import (
    APPLICATION,
    CONFIG,
    TOKEN,
    DriverConfig,
    read_driver_config,
    read_job,
    read_token,
)
from flamestream.spark.streaming.gradual import at_once
from flamestream.spark.streaming.kubernetes import (
    FOR_BATCHES,
    KubernetesSettings,
    api_server,
    kubernetes_conf,
)
from flamestream.spark.streaming.session import SparkDriver, SparkSettings

TERMINATION_LOG: Final = Path("/dev/termination-log")
MAX_MESSAGE: Final = 3000
"""Kubernetes keeps 4096 bytes of a termination message."""


def settings_of(config: DriverConfig, template: Path, scratch: Path) -> SparkSettings:
    """The session that a driver pod starts. Raises ManifestError for a user's setting that cannot be."""
    kubernetes = KubernetesSettings(
        namespace=_variable("POD_NAMESPACE"),
        driver_pod=_variable("POD_NAME"),
        driver_ip=_variable("POD_IP"),
        image=config.image,
        pod_name_prefix=config.pod_name_prefix,
        # the rest are asked for when these have started (driver_work.py)
        executors=at_once(config.tasks) if config.beside else config.tasks,
        template=str(template),
        api=api_server(),
    )
    usual = FOR_BATCHES if config.batches else {}
    conf = kubernetes_conf(kubernetes, {**usual, **config.spark_conf()})
    name = f"flamestream {config.job}"
    if config.batches:
        made = frames_settings(
            cores=config.tasks, scratch=scratch, master=kubernetes.master, conf=conf, name=name
        )
        return replace(made, console=True)
    return SparkSettings(
        workers=config.tasks, scratch=scratch, master=kubernetes.master, conf=conf, name=name, console=True
    )


def run(application: str, folder: Path = CONFIG, base: Path = APPLICATION, token: Path = TOKEN) -> None:
    """Until every worker was told to stop. Raises FlameStreamError."""
    config = read_driver_config(application, folder)
    with (
        tempfile.TemporaryDirectory() as scratch,
        SparkDriver(settings_of(config, folder / "executor.json", Path(scratch) / "spark")) as spark,
    ):
        from flamestream.spark.streaming.driver_work import run_job  # here: while the JVM boots

        run_job(spark, config, application, read_job(folder, base), read_token(token), _variable("POD_IP"))


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ManifestError(
            f"the environment variable {name} is missing: the driver pod gets it from its own fields"
        )
    return value


def _leave_message(error: FlameStreamError) -> None:
    message = {
        "category": error.category,
        "reason": type(error).__name__,
        "message": str(error)[:MAX_MESSAGE],
    }
    try:
        TERMINATION_LOG.write_bytes(msgspec.json.encode(message)[:4096])
    except OSError as problem:
        print(f"cannot write {TERMINATION_LOG}: {problem.strerror}", file=sys.stderr)


def _end(_signal: int, _frame: object) -> None:
    """The pod is to go: its workers have been replaced (driver_stay.py), or nobody waits for that. The first
    process of a container gets no other end by this signal, and the JVM ends with it."""
    os._exit(128 + signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """`python -m flamestream.spark.streaming.driver_main APPLICATION`"""
    parser = argparse.ArgumentParser(prog="driver", description="The driver pod of one application of a job.")
    parser.add_argument("application", help="a, or b")
    application = parser.parse_args(arguments).application
    sys.excepthook = process_shell.uncaught
    process_shell.begin(0, role="driver", application=application)
    signal.signal(signal.SIGTERM, _end)
    try:
        run(application)
    except FlameStreamError as error:
        _leave_message(error)
        return ended_by(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
