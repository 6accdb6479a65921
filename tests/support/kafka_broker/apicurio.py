"""A real schema registry: Apicurio, which answers as Confluent's does; its program from Maven Central,
fetched once into `.cache` (140 MB).

It keeps what it is told in memory: killed and started again it is empty. Where there is no Maven, the tests
that need it are skipped.
"""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flamestream.machine.java import QUICK, find_java
from support.eventually import eventually
from support.installing import CACHE, SECONDS, by_maven
from support.ports import free_port
from support.processes import kill

VERSION = "2.6.13.Final"
PROGRAM = CACHE / f"apicurio-{VERSION}"
CONTENT = "application/vnd.schemaregistry.v1+json"


class Apicurio:
    """Its Confluent-compatible API is at `url`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Back when it answers."""
        options = ["-Xmx256m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"]
        with open(self._folder / "log", "ab") as log:
            command: list[str] = [str(find_java().launcher), *QUICK, *options, "-jar", str(_program())]
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        eventually(self._answers, "the registry answers", within=60)

    def kill(self) -> None:
        """SIGKILL, and back when it is dead."""
        if self._process is not None:
            kill(self._process.pid)
            self._process.wait()
            self._process = None

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """The schema's id. `more`: further fields of the request."""
        body = json.dumps({"schema": json.dumps(schema), **more}).encode()
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions", body, {"Content-Type": CONTENT}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.load(answer)["id"])

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (
            f"the registry has ended: {(self._folder / 'log').read_text()[-2000:]}"
        )
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def apicurio(folder: Path) -> Iterator[Apicurio]:
    """A started one."""
    made = Apicurio(folder)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def _program() -> Path:
    artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
    folder = by_maven(PROGRAM, "schema registry", "", "dependency:copy", artifact, finish=_unpack)
    (program,) = folder.glob("*-runner.jar")
    return program


def _unpack(made: Path) -> None:
    (packed,) = made.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", packed.name], cwd=made, check=True, timeout=SECONDS)
    packed.unlink()
