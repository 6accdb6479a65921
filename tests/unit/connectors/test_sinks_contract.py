"""Every sink that can fence keeps the consumer's contract."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.fences import FencedFolder, ordered_logs
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.payload import encode_items
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.consumer import ConsumerServer
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, SINK, Outside, check_torn_at_any_byte


class Folder:
    """A files sink."""

    def __init__(self, root: Path, fsync: bool) -> None:
        self.root = root
        self.spec = {"files": {"path": str(root), "fsync": fsync}}

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        return [(slot, sequence, items) for slot, sequence, _, items in sinks.read_all(self.root)]

    def tear(self) -> bool:
        log = self.root / ordered_logs(FencedFolder(self.root).counted().lengths)[-1]
        size = log.stat().st_size
        if size:
            os.truncate(log, size - 1)
        return size > 0


class Rolled:
    """A rolling sink in a folder. With a short `roll_seconds` deliveries become parts at once; with a long
    one they stay segments."""

    def __init__(self, root: Path, form: str, roll_seconds: float = 60.0) -> None:
        self.spec = {
            "rolling": {"path": str(root), "format": form, "rollSeconds": roll_seconds, "segmentSeconds": 0}
        }

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        bundles: dict[tuple[int, int], list[tuple[bytes, object]]] = {}
        for meta, slot, sequence, payload in sinks.read(self.spec):
            bundles.setdefault((slot, sequence), []).append((meta, payload))
        return [(slot, sequence, encode_items(items)) for (slot, sequence), items in bundles.items()]


class Server:
    """A socket sink and its far end."""

    def __init__(self, server: ConsumerServer, had: list[Bundle]) -> None:
        self.spec = {"socket": {"address": server.address}}
        self.had = had

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        return [(bundle.slot, bundle.sequence, bundle.items) for bundle in self.had]


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("fsync", [True, False], ids=["fsync", "no-fsync"])
def test_files(check: Callable[[Outside], None], fsync: bool, tmp_path: Path) -> None:
    check(Folder(tmp_path / "out", fsync))


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("roll_seconds", [0.001, 60.0], ids=["parts", "segments"])
def test_rolling(check: Callable[[Outside], None], form: str, roll_seconds: float, tmp_path: Path) -> None:
    check(Rolled(tmp_path / "out", form, roll_seconds))


def test_files_torn_at_any_byte(tmp_path: Path) -> None:
    check_torn_at_any_byte(Folder(tmp_path / "out", True))


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_socket(check: Callable[[Outside], None]) -> None:
    had: list[Bundle] = []
    with ConsumerServer(had.extend) as server:
        check(Server(server, had))
