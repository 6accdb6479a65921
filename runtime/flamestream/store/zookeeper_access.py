"""How ZooKeeper is reached: the one value that whoever opens a session is given.

>>> ZooKeeperAccess("zk-0:2181,zk-1:2181", "operator:secret")
ZooKeeperAccess(hosts='zk-0:2181,zk-1:2181', authority='')

Keeps: no login where it is printed. Does not: open a session (zookeeper.py), or read anything from a folder
(driver_config.py).
"""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """Where it is, as whom it is used, and what it must prove."""

    hosts: str
    """host:port[,host:port]"""
    login: str = field(default="", repr=False)
    """user:password; then every node that is made is this login's alone (digest), to read as well. Empty:
    nodes are everybody's."""
    authority: str = ""
    """Certificates (PEM) of those who may sign the servers'. Empty: the session is not over TLS."""


NOWHERE: Final = ZooKeeperAccess("")
"""There is none: a job that keeps nothing there."""
