"""A real PostgreSQL server of a test's own: initdb, start, SIGKILL, start again.

Binaries: `FLAMESTREAM_POSTGRES_BIN`, else Debian's, else (as root) Debian's package is installed. PostgreSQL
refuses to run as root, so root becomes its user `postgres`. Without fsync: what is tested is the death of
processes, not of the machine.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.eventually import eventually
from support.installing import install, one_at_a_time
from support.ports import free_port
from support.processes import alive, descendants, kill

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "fsync": "off",
    "full_page_writes": "off",
    "log_min_messages": "warning",
}
USER, DATABASE = "test", "postgres"


def binaries() -> Path:
    """Where initdb and postgres lie."""
    if given := os.environ.get("FLAMESTREAM_POSTGRES_BIN"):
        return Path(given)
    with one_at_a_time():
        if not _debian():
            install("postgresql")
    if found := _debian():
        return found
    pytest.skip(
        "no PostgreSQL server: install Debian's postgresql, or name its folder of binaries in "
        "FLAMESTREAM_POSTGRES_BIN"
    )


def _debian() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class PostgresServer:
    """One server in a folder of its own; `dsn` is a superuser's, without password unless `auth` says so."""

    def __init__(self, folder: Path, *, auth: str = "trust", **settings: str) -> None:
        self._bin = binaries()
        self._data = folder / "data"
        self._log = folder / "log"
        self._settings = SETTINGS | settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.dsn = f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        initdb: list[str | Path] = [
            self._bin / "initdb",
            "-D",
            self._data,
            "-U",
            USER,
            "-A",
            auth,
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        if auth != "trust":
            (folder / "password").write_text("secret")
            initdb += ["--pwfile", folder / "password"]
        done = subprocess.run(
            [*_as_postgres(), *initdb], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> "PostgresServer":
        """Back when it answers."""
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [
            *_as_postgres(),
            self._bin / "postgres",
            "-D",
            self._data,
            "-p",
            str(self.port),
            *options,
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._data.parent)
        eventually(self._answers, f"PostgreSQL answers; see {self._log}")
        return self

    def kill(self) -> None:
        """SIGKILL to the server and its sessions at once; back when all are dead."""
        assert self._process is not None
        below = descendants(self._process.pid)
        kill(self._process.pid)
        self._process.wait()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            eventually(lambda pid=pid: not alive(pid), f"session {pid} ends with its server")  # type: ignore[misc]  # bound at once
        self._process = None

    def restart(self) -> None:
        """After SIGKILL."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self.kill()

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        """A session of the test's."""
        return psycopg.connect(self.dsn, autocommit=True)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run these; the rows of the last one."""
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # a test's own SQL
            return cursor.fetchall() if cursor.description else []

    def backends(self, like: str = "flamestream%") -> list[int]:
        """Server processes of sessions with such a name."""
        named = f"SELECT pid FROM pg_stat_activity WHERE application_name LIKE '{like}'"
        return [pid for (pid,) in self.execute(named)]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (
            f"PostgreSQL ended with {self._process.returncode}: {self._log.read_text()[-1000:]}"
        )
        try:
            self.connect().close()
        except psycopg.OperationalError as error:
            return "authentication" in str(error) or "password" in str(error)
        return True


@contextlib.contextmanager
def postgres(auth: str = "trust", **settings: str) -> Iterator[PostgresServer]:
    """A running server that ends with the block. Not in pytest's folder, which PostgreSQL's user may not
    enter."""
    with tempfile.TemporaryDirectory(prefix="flamestream-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder), auth=auth, **settings)
        try:
            yield server.start()
        finally:
            server.close()


def _as_postgres() -> list[str]:
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
