"""Everybody who opens a session of a cluster's job gives it all of its access: against a server that takes
nobody without TLS."""

import ast
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.audit.committed import committed_there
from flamestream.journal.places import JournalConfig, build, everything
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.coordination.cluster_state import SharedClusterState, ZooKeeper
from flamestream_operator.tools import preflight_main
from support.installing import ROOT
from support.journals.worker import FRONT, Worker
from support.loops import reactor
from support.zookeeper.authority import Authority
from support.zookeeper.pod import SharedZooKeeper


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperAccess]:
    authority = Authority(tmp_path_factory.mktemp("authorities") / "ours")
    with SharedZooKeeper(tmp_path_factory.mktemp("server"), authority.server(), authority.text) as made:
        yield made.access()


def a_worker(access: ZooKeeperAccess) -> None:
    with reactor() as loop:
        Worker(loop, 1, lambda post: build(JournalConfig(zookeeper=access), "worker", 4, loop, post)).seal()


def a_trial(access: ZooKeeperAccess) -> None:
    checked: Any = SimpleNamespace(job=SimpleNamespace(store=str(ROOT)))
    assert preflight_main._committed(checked, "trial", access) is None


def the_operator(access: ZooKeeperAccess) -> None:
    shared = SharedClusterState(ZooKeeper(access=access))
    assert shared.records("job").read() is None
    shared.close()


OPENERS: dict[str, Callable[[ZooKeeperAccess], object]] = {
    "journal/places.py:build": a_worker,
    "journal/places.py:everything": lambda access: everything(
        JournalConfig(zookeeper=access), "audited", FRONT
    ),
    "audit/committed.py:committed_there": lambda access: committed_there(access, "audited", "/nowhere"),
    "tools/preflight_main.py:_committed": a_trial,
    "coordination/cluster_state.py:connected": the_operator,
}
OF_ONE_MACHINE = {
    "audit/committed.py:committed_here", "spark/frames.py:attempt_of", "local/launcher.py:run",
    "node/coordinator_process.py:run", "streaming/make_class_archives.py:zookeeper_archive",
    "streaming/make_class_archives.py:session",
}  # fmt: skip
"""They reach the embedded server, on loopback and without TLS."""


def opens(function: ast.AST) -> bool:
    """Whether it names what opens a session, other than as a type."""
    notes = [
        node.annotation
        for node in ast.walk(function)
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation
    ]
    notes += [
        node.returns for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node.returns
    ]
    types = {id(each) for note in notes for each in ast.walk(note)}
    return any(
        isinstance(each, ast.Name) and each.id == "ClusterState" and id(each) not in types
        for each in ast.walk(function)
    )


@pytest.mark.parametrize("opener", OPENERS)
def test_an_opener_passes_the_authority_on(opener: str, access: ZooKeeperAccess) -> None:
    OPENERS[opener](access)


def test_there_is_no_other_opener() -> None:
    found = {
        f"{file.parent.name}/{file.name}:{function.name}"
        for package in ("runtime/flamestream", "operator/flamestream_operator")
        for file in (ROOT / package).rglob("*.py")
        if "ClusterState" in (text := file.read_text()) and file.name != "zookeeper.py"
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef) and opens(function)
    }
    assert found == {*OPENERS, *OF_ONE_MACHINE}
