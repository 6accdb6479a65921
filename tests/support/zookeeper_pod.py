"""The chart's ZooKeeper, as a process of this machine: the server that jobs share on a cluster, with the operator as its superuser."""

import socket
import subprocess
from pathlib import Path
from typing import Self

from flamestream.store.zookeeper import ClusterState
from flamestream.store.zookeeper_pod import command
from flamestream.store.zookeeper_server import is_ready
from flamestream_operator.coordination.cluster_state import ZooKeeper
from support.eventually import eventually
from support.ports import free_port

LOGIN = f"operator:{'p' * 32}"


class SharedZooKeeper:
    """Its data stays in `folder`; `start` again with another login is what a Secret that was made anew does."""

    def __init__(self, folder: Path, tls: Path | None = None) -> None:
        self._folder, self._port, self._tls = folder, free_port(), tls
        self.hosts = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, login: str = LOGIN) -> Self:
        """Until it serves."""
        self.close()
        words = command(self._folder / "data", self._folder, login, self._port, self._tls)
        with (self._folder / "out").open("ab") as out:
            self._process = subprocess.Popen(words, stdout=out, stderr=out)
        eventually(self._answers, "ZooKeeper serves", within=60)
        return self

    def _answers(self) -> bool:
        """A server with TLS says nothing to who comes without: that it listens must do."""
        if self._tls is None:
            return is_ready(self.hosts)
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def place(self, login: str = LOGIN, *, room: int = 0, alone: bool = True) -> ZooKeeper:
        """As the operator is told."""
        return ZooKeeper(hosts=self.hosts, login=login, journal_room=room, alone=alone)

    def session(self, login: str = "") -> ClusterState:
        """Of whoever has this login."""
        return ClusterState(f"{login}@{self.hosts}" if login else self.hosts)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
