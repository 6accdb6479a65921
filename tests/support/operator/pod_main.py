"""What runs in a pod of support/operator/kubelet.py, but for Spark: `python pod_main.py worker|preflight
FOLDER APPLICATION [INDEX ORDINAL]`.

FOLDER holds the pod's volumes by name. A worker is told exactly what a driver would tell it, by the driver's
own function. Where NAMES is set, that file has the places of Services by name: there is no name service.
"""

import json
import os
import secrets
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flamestream.job.validation import checked_job
from flamestream.net import dial
from flamestream.ports import Reactor
from flamestream.spark.streaming import driver_config, driver_work
from flamestream.spark.streaming.task import Life
from flamestream.spark.streaming.worker_main import pod_worker_main

NAMES = "FLAMESTREAM_TESTS_NAMES"


def looked_up(
    reactor: Reactor, host: str, port: int, done: Callable[[object], None], *, anew: bool = False
) -> None:
    """In the place of flamestream.net.known_names."""
    place = json.loads(Path(os.environ[NAMES]).read_text()).get(host)
    found = socket.gaierror(f"no such name: {host}:{port}, anew: {anew}") if place is None else None
    answer = found or socket.getaddrinfo(place[0], place[1], type=socket.SOCK_STREAM)
    reactor.soon(lambda: done(answer))


def worker(folder: Path, application: str, index: int, ordinal: int) -> int:
    """One life."""
    if NAMES in os.environ:
        vars(dial)["ask"] = looked_up
    config, job, token = (
        driver_config.read_driver_config(application, folder / "config"),
        driver_config.read_job(folder / "config", folder / "application"),
        driver_config.read_token(folder / "secret" / "token"),
    )
    zookeeper = driver_config.read_zookeeper(folder / "zookeeper")
    return pod_worker_main(
        driver_work._told(config, checked_job(job), token, zookeeper),
        application,
        Life(index, ordinal, secrets.token_hex(4)),
    )


def preflight(folder: Path) -> int:
    """The verdict goes to stdout, which the kubelet gives on as the termination message."""
    from flamestream_operator.tools import preflight_main

    vars(preflight_main)["read_job"] = partial(
        driver_config.read_job, base=folder / "application"
    )  # the pod's mounts
    vars(preflight_main)["read_zookeeper"] = partial(driver_config.read_zookeeper, folder / "zookeeper")
    vars(preflight_main)["APPLICATION_BEFORE"] = folder / "before"
    said = preflight_main.verdict(folder / "config")
    sys.stdout.write(json.dumps(said))
    return 0 if said["ok"] else 1


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    sys.exit(
        preflight(Path(where))
        if what == "preflight"
        else worker(Path(where), rest[0], int(rest[1]), int(rest[2]))
    )
