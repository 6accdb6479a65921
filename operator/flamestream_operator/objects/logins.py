"""The logins of jobs for ZooKeeper, each made from the operator's: nobody has to keep them, and all runs of a
job have the same.

>>> login_of("space.index", "operator:secret") == login_of("space.index", "operator:secret")
True
>>> login_of("space.index", "operator:secret") == login_of("space.other", "operator:secret")
False

Keeps: who knows one job's login can tell neither the operator's nor another job's. Does not: say what a login
may do (flamestream/store/zookeeper_rights.py).
"""

import hmac
from dataclasses import replace

from flamestream.store.zookeeper_access import ZooKeeperAccess


def access_of(job: str, operators: ZooKeeperAccess) -> ZooKeeperAccess:
    """How `job` reaches the operator's ZooKeeper."""
    return replace(operators, login=login_of(job, operators.login))


def login_of(job: str, operators: str) -> str:
    """user:password of `job` (NAMESPACE.NAME), by the operator's user:password."""
    password = operators.partition(":")[2]
    return f"{job}:{hmac.digest(password.encode(), f'zookeeper {job}'.encode(), 'sha256').hex()}"
