"""The documented example server of the HTTP sink, a process of its own that can be killed."""

import socket
import sqlite3
import subprocess
import sys
from base64 import b64decode
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from flamestream.connectors import sinks
from flamestream.model.ids import SinkName, WorkerId
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.consumer_contract import SINK
from support.eventually import eventually
from support.ports import free_port

EXAMPLE = Path(__file__).parents[3] / "examples" / "connectors" / "http_consumer.py"


class Example:
    """The example server, over a database that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.port, self.database = free_port(), folder / "results.db"
        self.spec: dict[str, dict[str, object]] = {
            "http": {"url": f"http://127.0.0.1:{self.port}/", "contract": "fenced"}
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, EXAMPLE, str(self.port), str(self.database)])
        eventually(self._listens, "the example listens")

    def stop(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def close(self) -> None:
        """If it runs."""
        if self.process is not None:
            self.stop()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        with closing(sqlite3.connect(self.database)) as database:
            rows = database.execute("SELECT slot, sequence, items FROM results ORDER BY n").fetchall()
        return [(slot, sequence, b64decode(items)) for slot, sequence, items in rows]

    def fences(self) -> set[tuple[int, int]]:
        """Attempt and layout under which its slots are open."""
        with closing(sqlite3.connect(self.database)) as database:
            return set(database.execute("SELECT DISTINCT attempt, layout FROM slots"))

    def payloads(self) -> list[str]:
        """Of every item, as JSON, in the order they came."""
        if not self.database.exists():
            return []
        with closing(sqlite3.connect(self.database, timeout=30)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'results'").fetchone():
                return []  # it has just begun
            return [payload for (payload,) in database.execute("SELECT payload FROM results ORDER BY n")]
