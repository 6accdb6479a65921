"""A real Prometheus of a test's own, and promtool.

Binaries: those in PATH, else (as root) Debian's package is installed.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.eventually import eventually
from support.installing import install, one_at_a_time
from support.ports import free_port


def binary(name: str) -> str:
    """Where `prometheus` or `promtool` is."""
    with one_at_a_time():
        if not shutil.which(name):
            install("prometheus")
    if not (found := shutil.which(name)):
        pytest.skip("no Prometheus: install Debian's prometheus")
    return found


def promtool(*arguments: str | Path) -> str:
    """Its output. Raises AssertionError if it finds fault."""
    command = [binary("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """One server that reads one target each second."""

    def __init__(self, address: str, port: int, log: Path) -> None:
        self.port = port
        self._url = f"http://{address}:{port}"
        self._log = log

    def samples(self, query: str) -> list[dict[str, Any]]:
        """The answer to an instant query, a vector. Raises AssertionError if the server takes it for none."""
        address = f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                found = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        assert found["resultType"] == "vector", query
        return list(found["result"])

    def answers(self) -> bool:
        """Whether it is there."""
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5):
                return True
        except OSError:
            return False


@contextlib.contextmanager
def prometheus(target: int, token: str, address: str = "127.0.0.1") -> Iterator[Prometheus]:
    """A running server that reads a port of this machine with a bearer token, as the chart's ServiceMonitor has
    it, and answers at this address; it ends with the block."""
    path = binary("prometheus")
    with tempfile.TemporaryDirectory(prefix="flamestream-prometheus-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        scrape = {
            "job_name": "operator",
            "authorization": {"credentials": token},
            "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
        }
        settings = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [scrape],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [
                    path,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={address}:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            server = Prometheus(address, port, folder / "log")
            eventually(server.answers, f"Prometheus answers; see {folder / 'log'}")
            yield server
        finally:
            process.terminate()
            process.wait()
