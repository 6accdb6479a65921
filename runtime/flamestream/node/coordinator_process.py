"""The coordinator's process: core.coordinator on its ports, and the job's status and its last hour for people.

`python -m flamestream.node.coordinator_process CONFIG.json --fd N`: the launcher keeps the listening socket
and passes it as descriptor N, so a coordinator that is started again has the same address, and workers find
it by themselves. SIGTERM and SIGINT stop the job at once, SIGUSR1 drains it to an epoch, SIGUSR2 has it read
its configuration once more, for upgrades and a hand-over; killing this process harms nothing, the stream goes
on without it.

Does not: decide anything (core/coordinator/coordinator.py), carry it out (coordinator_host.py), or start
workers (the launcher does).
"""

import argparse
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from flamestream.core.coordinator import coordination as co
from flamestream.job.exit_codes import BY_CATEGORY, ended_by
from flamestream.loop.reactor import EpollReactor
from flamestream.machine import process_shell
from flamestream.model.errors import FlameStreamError
from flamestream.net.control_link import ControlServer
from flamestream.node.coordinator_host import CoordinatorHost
from flamestream.node.samples import Sample, each_second
from flamestream.node.samples_file import SamplesFile
from flamestream.node.status_file import StatusFile
from flamestream.store.lazy import LazyStore
from flamestream.store.places import store_from
from flamestream.store.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.store.zookeeper_access import ZooKeeperAccess


class CoordinatorProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the coordinator's process is told from outside. Holds the job's token: for its owner's
    eyes only."""

    settings: co.Settings
    token: str
    zookeeper: ZooKeeperAccess
    """Where the job record is."""
    store: str
    status: str
    """Path of the file status.json."""
    upgrades: dict[int, co.Settings | None] = {}
    """Settings under other applications that the job was asked to go on with since it was started, by their
    numbers from 1; the newest MOST_ASKED of them. None: no other than that which runs."""
    hand_over: str = ""
    """The job that is to go on where this one ends; "": none."""
    parent: int = 0
    """Pid of the parent, to end with it; 0: don't."""


def run(file_of_config: str, listener: socket.socket) -> int:
    """Coordinate until the job ends. The exit code."""
    try:
        config = process_shell.read_config(CoordinatorProcessConfig, file_of_config)
    except FlameStreamError as error:
        return ended_by(error)
    process_shell.begin(config.parent, job=config.settings.job, role="coordinator")
    reactor = EpollReactor()
    try:
        records = ZooKeeperJobRecords(ClusterState(config.zookeeper), config.settings.job)
    except FlameStreamError as error:
        return ended_by(error)
    server = ControlServer(reactor, listener, config.settings.job, config.token)
    file: StatusFile
    host = CoordinatorHost(
        config.settings,
        config.token,
        reactor,
        records,
        LazyStore(lambda: store_from(config.store)),
        server,
        changed=lambda: file.changed(),  # noqa: PLW0108  it is made below
    )
    server.handlers = host
    file = StatusFile(reactor, Path(config.status), host.look)
    samples = SamplesFile(Path(config.status).parent)

    def sampled(sample: Sample) -> None:
        samples.add(sample)
        file.changed()  # whoever follows it reads samples, too

    each_second(reactor, host.sample, sampled)
    upgrades = _Upgrades(host, file_of_config)
    upgrades.tell(config)
    _obey_signals(host, lambda: reactor.soon(upgrades.read))
    # the first event is in the inbox already: without this the loop would wait until something else comes
    reactor.soon(lambda: None)
    reactor.run(lambda: _turn(host, reactor))
    server.close()  # every worker hears its last message
    file.write()
    reactor.close()
    assert host.finish is not None, "the loop ends by Finish"
    return BY_CATEGORY["fenced" if host.finish.outcome == "fenced" else host.finish.category]


def _turn(host: CoordinatorHost, reactor: EpollReactor) -> None:
    host.turn()
    if host.finish is not None:
        reactor.stop()


class _Upgrades:
    """The applications that the job was asked to go on with, and the job that it is to hand over to, told once
    each."""

    def __init__(self, host: CoordinatorHost, file: str) -> None:
        self._host, self._file, self._told = host, file, 0
        self._hand_over = ""

    def read(self) -> None:
        """Read the configuration again, and tell of those that are new in it."""
        self.tell(process_shell.read_config(CoordinatorProcessConfig, self._file))

    def tell(self, config: CoordinatorProcessConfig) -> None:
        """Tell of those that are new."""
        for number, settings in sorted(config.upgrades.items()):
            if number > self._told:
                self._host.upgrade(settings)
                self._told = number
        if config.hand_over != self._hand_over:
            self._hand_over = config.hand_over
            self._host.hand_over(self._hand_over)


def _obey_signals(host: CoordinatorHost, read_upgrades: Callable[[], None]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: host.request("stop"))
    signal.signal(signal.SIGINT, lambda *_: host.request("stop"))
    signal.signal(signal.SIGUSR1, lambda *_: host.request("drain"))
    signal.signal(signal.SIGUSR2, lambda *_: read_upgrades())


def main(arguments: list[str]) -> int:
    """`python -m flamestream.node.coordinator_process CONFIG.json --fd N`"""
    sys.excepthook = process_shell.uncaught
    parser = argparse.ArgumentParser(prog="coordinator_process", description="The coordinator of one job.")
    parser.add_argument("config")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the listening socket")
    parsed = parser.parse_args(arguments)
    return run(parsed.config, socket.socket(fileno=parsed.fd))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
