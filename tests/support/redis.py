"""A real Redis server of a test's own: start, SIGKILL, start again on what it had.

Binary: `FLAMESTREAM_REDIS_SERVER`, else the one in PATH, else (as root) Debian's package is installed.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotThere
from redis.exceptions import RedisError

from support.eventually import eventually
from support.installing import install, one_at_a_time
from support.ports import free_port

SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "bind": "127.0.0.1",
    "loglevel": "warning",
}


def binary() -> str:
    """Where redis-server is."""
    if given := os.environ.get("FLAMESTREAM_REDIS_SERVER"):
        return given
    with one_at_a_time():
        if not shutil.which("redis-server"):
            install("redis-server")
    if not (found := shutil.which("redis-server")):
        pytest.skip(
            "no Redis server: install Debian's redis-server, or name a binary in FLAMESTREAM_REDIS_SERVER"
        )
    return found


class RedisServer:
    """One server in a folder of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._binary = binary()
        self._folder = folder
        self._log = folder / "log"
        self._settings = SETTINGS | {name.replace("_", "-"): value for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> "RedisServer":
        """Back when it answers, with its data loaded."""
        settings = SETTINGS | self._settings | {"port": str(self.port), "dir": str(self._folder)}
        command = [self._binary, *(part for name, value in settings.items() for part in (f"--{name}", value))]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        eventually(self._answers, f"Redis answers; see {self._log}")
        return self

    def kill(self) -> None:
        """SIGKILL; back when it is dead."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """After SIGKILL."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self.kill()

    @property
    def pid(self) -> int:
        """Of the server."""
        assert self._process is not None
        return self._process.pid

    def call(self, *command: Any) -> Any:
        """A command of the test's; strs in the answer."""
        with contextlib.closing(
            Redis(port=self.port, password=self._settings.get("requirepass"), decode_responses=True)
        ) as client:
            return client.execute_command(*command)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (
            f"Redis ended with {self._process.returncode}: {self._log.read_text()[-1000:]}"
        )
        try:
            return bool(self.call("PING"))
        except (NotThere, RedisError):
            return False


@contextlib.contextmanager
def redis_server(**settings: str) -> Iterator[RedisServer]:
    """A running server that ends with the block."""
    with tempfile.TemporaryDirectory(prefix="flamestream-redis-", ignore_cleanup_errors=True) as folder:
        server = RedisServer(Path(folder), **settings)
        try:
            yield server.start()
        finally:
            server.close()
