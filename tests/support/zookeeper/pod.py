"""The chart's ZooKeeper, as a process of this machine: the server that jobs share on a cluster, with the
operator as its superuser."""

import subprocess
from pathlib import Path
from typing import Self

from flamestream.store.zookeeper import ClusterState
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream.store.zookeeper_pod import command
from flamestream.store.zookeeper_server import is_ready
from flamestream_operator.coordination.cluster_state import ZooKeeper
from support.eventually import eventually
from support.ports import free_port
from support.zookeeper.authority import Authority

LOGIN = f"operator:{'p' * 32}"


class SharedZooKeeper:
    """Its data stays in `folder`; `start` again with another login is what a Secret that was made anew
    does."""

    def __init__(self, folder: Path, tls: Path | None = None, authority: str = "") -> None:
        """`tls`: the folder of its key, whose certificate `authority` has signed; None: it speaks without."""
        self._folder, self._port, self._tls, self._authority = folder, free_port(), tls, authority
        self.hosts = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, login: str = LOGIN) -> Self:
        """Until it serves."""
        self.close()
        words = command(self._folder / "data", self._folder, login, self._port, self._tls)
        with (self._folder / "out").open("ab") as out:
            self._process = subprocess.Popen(words, stdout=out, stderr=out)
        eventually(lambda: is_ready(self.hosts, sealed=self._tls is not None), "ZooKeeper serves", within=60)
        return self

    def seal(self) -> Self:
        """Serve over TLS from now on, in the same place."""
        authority = Authority(self._folder / "authority")
        self._tls, self._authority = authority.server(), authority.text
        return self.start()

    def access(self, login: str = LOGIN) -> ZooKeeperAccess:
        """As whoever has this login is told."""
        return ZooKeeperAccess(self.hosts, login, self._authority)

    def place(self, login: str = LOGIN, *, room: int = 0, alone: bool = True) -> ZooKeeper:
        """As the operator is told."""
        return ZooKeeper(access=self.access(login), journal_room=room, alone=alone)

    def session(self, login: str = "") -> ClusterState:
        """Of whoever has this login."""
        return ClusterState(self.access(login))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
