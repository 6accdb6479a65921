"""Memory and CPU of an operator's coordinators: N jobs of two idle workers each, in one process, with a real
ZooKeeper.

    PYTHONPATH=operator python benchmarks coordinators --jobs 100

The workers are false: they say what real ones would say (Hello, Opened, Sealed, a heartbeat each 100 ms), so
that the process measured is the coordinators' alone. No epoch commits. Prints megabytes before, megabytes a
job, and the share of a core.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol import messages as m
from flamestream.core.protocol.actions import ToldCoordinator
from flamestream.core.protocol.events import Event, FromCoordinator
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.time import END, Time
from flamestream.net.control_link import ControlClient
from flamestream.store.places import store_from
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.coordination.coordinators import Coordinators
from flamestream_operator.coordination.hosting import JobToCoordinate

TOKEN = "t" * 64
BEAT = 0.1


class FalseWorker:
    """Agrees to everything, and has nothing to do."""

    def __init__(self, reactor: EpollReactor, job: str, name: str, port: int) -> None:
        self._fence, self._ready, self._time = NO_FENCE, False, 1
        self._reactor, self._name = reactor, WorkerId(name)
        self._control = ControlClient(reactor, self._hear, job, f"127.0.0.1:{port}", TOKEN, self._hello)
        reactor.later(BEAT, self._beat)

    def _hello(self) -> m.Hello:
        return m.Hello(self._name, "127.0.0.1:1", self._fence, self._ready, "3.11", "graph")

    def _hear(self, event: Event) -> None:
        assert isinstance(event, FromCoordinator)
        match event.message:
            case m.Recover(assignment=assignment):
                self._fence, self._ready = assignment.fence, False
                self._tell(m.Opened(self._fence, b"", []))
            case m.Seal():
                self._tell(m.Sealed(self._fence, Time(0)))
            case m.Replay():
                self._ready = True
            case _:
                pass

    def _beat(self) -> None:
        self._time += 4096
        if self._ready:
            self._tell(
                m.Progress(self._fence, Time(self._time), Time(self._time), END, self._time, self._time)
            )
        self._reactor.later(BEAT, self._beat)

    def _tell(self, message: Any) -> None:
        self._control.tell(ToldCoordinator(message))


def workers(jobs: int, port: int) -> None:
    reactor = EpollReactor()
    kept = [
        FalseWorker(reactor, f"default.job-{job}", f"w{index}", port)
        for job in range(jobs)
        for index in range(2)
    ]
    assert kept
    reactor.run(lambda: None)


def megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as zookeeper:
        coordinators = Coordinators(
            zookeeper=ZooKeeper(access=zookeeper.access), host="127.0.0.1", port=17700,
            changed=lambda _: None, store_of=lambda url, _: store_from(url),
        )  # fmt: skip
        names = [f"default.job-{number}" for number in range(options.jobs)]
        before = megabytes()
        for name in names:
            settings = Settings(job=name, graph="", python="", workers=2, fronts=1)
            coordinators.start(
                JobToCoordinate(settings=settings, token=TOKEN, store=str(Path(folder) / "store"))
            )
        helper = multiprocessing.get_context("spawn").Process(
            target=workers, args=(options.jobs, 17700), daemon=True
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
