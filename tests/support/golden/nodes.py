"""Nodes of ZooKeeper as files of a folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError

from flamestream.store.zookeeper import ClusterState


class _Stat(NamedTuple):
    version: int = 0


class Nodes(ClusterState):
    """A session in which nothing is ever lost."""

    def __init__(self, folder: Path) -> None:
        self.hosts, self._folder = "golden", folder
        self.client: Any = self

    def ask(self, what: str, call: Callable[[], Any]) -> Any:
        return call()

    def create_async(self, path: str, data: bytes, acl: object = None, makepath: bool = False) -> None:
        (self._folder / path.rpartition("/")[2]).write_bytes(data)

    def get_async(self, path: str) -> tuple[bytes, _Stat]:
        try:
            return (self._folder / path.rpartition("/")[2]).read_bytes(), _Stat()
        except FileNotFoundError:
            raise NoNodeError from None
