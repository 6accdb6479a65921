"""Memory and CPU of an operator's coordinators: N jobs of two idle workers each, in one process, with a real
ZooKeeper.

    PYTHONPATH=operator python benchmarks coordinators --jobs 100
    PYTHONPATH=operator python benchmarks coordinators --jobs 100 --workers 4 --interval 1    # with epochs

The workers are false (fleet/workers.py), so that the process measured is the coordinators' alone. Prints megabytes
before, megabytes a job, and the share of a core.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

from fleet.workers import FalseWorker

from flamestream.core.coordinator.coordination import Settings
from flamestream.loop.reactor import EpollReactor
from flamestream.net.route import Route
from flamestream.store.places import store_from
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.coordination.coordinators import Coordinators
from flamestream_operator.coordination.hosting import JobToCoordinate

TOKEN = "t" * 64


def workers(jobs: int, each: int, port: int) -> None:
    reactor = EpollReactor()
    kept = [
        FalseWorker(
            reactor, f"default.job-{job}", f"w{index}", "127.0.0.1:1", TOKEN, Route(f"127.0.0.1:{port}")
        )
        for job in range(jobs)
        for index in range(each)
    ]
    assert kept
    reactor.run(lambda: None)


def megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--workers", type=int, default=2, help="of each job")
    parser.add_argument("--interval", type=float, default=0.0, help="seconds between epochs; 0: none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as zookeeper:
        coordinators = Coordinators(
            zookeeper=ZooKeeper(access=zookeeper.access), host="127.0.0.1", port=17700,
            changed=lambda _: None, store_of=lambda url, _: store_from(url),
        )  # fmt: skip
        (Path(folder) / "store").mkdir()
        names = [f"default.job-{number}" for number in range(options.jobs)]
        before = megabytes()
        for name in names:
            interval = int(options.interval * 1e6) or None
            settings = Settings(
                job=name, graph="", python="", workers=options.workers, fronts=1, interval_us=interval
            )
            coordinators.start(
                JobToCoordinate(settings=settings, token=TOKEN, store=str(Path(folder) / "store"))
            )
        helper = multiprocessing.get_context("spawn").Process(
            target=workers, args=(options.jobs, options.workers, 17700), daemon=True
        )
        helper.start()
        deadline = time.monotonic() + 120
        while not all((status := coordinators.status(name)) and status.phase == "running" for name in names):
            assert time.monotonic() < deadline, "not every job runs"
            time.sleep(0.1)
        cpu, clock = time.process_time(), time.monotonic()
        time.sleep(options.seconds)
        share = (time.process_time() - cpu) / (time.monotonic() - clock)
        row = {
            "jobs": options.jobs,
            "before_mb": round(before, 1),
            "mb_a_job": round((megabytes() - before) / options.jobs, 3),
        }
        print(json.dumps({**row, "cores": round(share, 3), "load": round(os.getloadavg()[0], 1)}))
        helper.kill()


if __name__ == "__main__":
    main()
