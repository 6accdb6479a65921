"""The chart in a registry, as the image is: helm pushes it, pulls it, and installs from there what its folder has."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support import helm
from support.eventually import eventually
from support.installing import by_go
from support.ports import free_port


@contextmanager
def registry() -> Iterator[str]:
    """One of this machine, in memory."""
    port = free_port()
    command = [str(by_go("registry", "registry of images")), f"-port={port}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: listens(port), "the registry listens")
        yield f"localhost:{port}"
    finally:
        server.kill()
        server.wait()


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("localhost", port)):
        return True
    return False


def run(*words: str, folder: Path) -> str:
    command = [str(helm.binary()), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_chart_is_installed_from_a_registry_as_from_its_folder(tmp_path: Path) -> None:
    values = (
        "--set",
        "zookeeper.loginSecret=login,zookeeper.tls.secret=tls",
        "--kube-version",
        helm.KUBERNETES,
    )
    run("package", str(helm.CHART), folder=tmp_path)
    with registry() as host:
        run("push", "flamestream-0.1.0.tgz", f"oci://{host}/charts", "--plain-http", folder=tmp_path)
        place = f"oci://{host}/charts/flamestream"
        there = run(
            "template", "release", place, "--version", "0.1.0", "--plain-http", *values, folder=tmp_path
        )
        with pytest.raises(subprocess.CalledProcessError):
            run("template", "release", place, "--version", "0.2.0", "--plain-http", *values, folder=tmp_path)
    assert there == run("template", "release", str(helm.CHART), *values, folder=tmp_path)
