"""OpenTelemetry's own collector: it takes spans as OTLP, and writes what it took to a file.

`tests/support/go/collector` has it with the one receiver and the one exporter that are needed. It is built once into
the checkout's `.cache`; where it cannot be, the tests that need it are skipped, and say so.
"""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.installing import by_go
from support.ports import free_port


@dataclass(frozen=True)
class Taken:
    """A span as the collector took it; ids are in hexadecimal, "" is none."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    service: str

    @property
    def again(self) -> bool:
        """Whether another worker than that which it is of has told it."""
        return self.attributes.get("flamestream.told") == "again"


class Collector:
    """One process on a port of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._file = folder, folder / "spans.json"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Back when it answers."""
        config = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.port}"}}}},
            "exporters": {"file": {"path": str(self._file)}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            },
        }
        (self._folder / "config.yaml").write_text(json.dumps(config))
        command = [
            str(by_go("collector", "OpenTelemetry Collector")),
            "--config",
            f"file:{self._folder}/config.yaml",
        ]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self._answers, "the collector answers")

    def stop(self) -> None:
        """Back when it has ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(90)
            self._process = None

    def spans(self) -> list[Taken]:
        """All that it has taken. It ends first: it answers before it has written."""
        self.stop()
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [span for line in lines if line.endswith("}") for span in _spans(json.loads(line))]

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self._folder / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _spans(told: Any) -> Iterator[Taken]:
    for resource in told.get("resourceSpans", []):
        service = _attributes(resource["resource"])["service.name"]
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                parent = span.get("parentSpanId", "")
                yield Taken(span["name"], span["traceId"], span["spanId"], parent, _attributes(span), service)


def _attributes(told: Any) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values()), "") for each in told.get("attributes", [])}


def orphans(spans: list[Taken], roots: set[str] = frozenset()) -> list[Taken]:  # type: ignore[assignment]
    """Spans whose parent nobody has told. `roots`: spans of callers."""
    known = {(span.trace, span.id) for span in spans}
    return [
        span for span in spans
        if span.parent and span.parent not in roots and (span.trace, span.parent) not in known
    ]  # fmt: skip


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    """It runs as long as the test."""
    made = Collector(tmp_path / "collector")
    made.start()
    yield made
    made.stop()
