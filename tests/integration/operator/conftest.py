"""The servers that these tests share."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flamestream.job.settings import coordinator_settings
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.jobs import effects
from support.operator.plain_cluster import Places
from support.operator.real_cluster import VARIABLE, namespace, served
from support.versitygw import S3Server
from support.zookeeper.authority import Authority
from support.zookeeper.pod import SharedZooKeeper


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Named by the variable, or made for this session. Skips where there can be none."""
    if os.environ.get(VARIABLE):
        yield
        return
    with served(tmp_path_factory.mktemp("api-server")):
        yield


_NAMED = os.environ.get(VARIABLE)


@pytest.fixture
def own_api_server(api_server: None) -> None:
    """One without nodes of its own: support/operator/kubelet.py is the node. `make e2e` goes through the same
    with real nodes."""
    if _NAMED:
        pytest.skip(f"{VARIABLE} names a cluster with nodes of its own")


@pytest.fixture(scope="package")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Over TLS, as the chart has it: whoever opens a session without the authority fails here."""
    authority = Authority(tmp_path_factory.mktemp("authority") / "ours")
    with SharedZooKeeper(tmp_path_factory.mktemp("zk"), authority.server(), authority.text) as server:
        yield server.place(room=1 << 24)


@pytest.fixture(scope="package")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    server.make_bucket("jobs")
    yield server
    server.kill()


BUSY = 60_000_000
"""Microseconds of silence that cost no worker here: on a busy machine a process may say nothing for two seconds, and
these tests count who is lost. Who is killed is missed by its link; one that is paused is in test_coordinators.py."""
LATE = 10_000_000
"""A new coordinator's wait, in microseconds, for workers that dial at once, but on a busy machine."""


@pytest.fixture
def places(
    own_api_server: None, zookeeper: ZooKeeper, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Places]:
    monkeypatch.setattr(effects, "SILENCE", BUSY)
    monkeypatch.setattr(
        effects,
        "coordinator_settings",
        lambda *given: replace(coordinator_settings(*given), discovery_us=LATE, settle_us=LATE),
    )
    with namespace() as name:
        yield Places(zookeeper, s3, name, tmp_path)
