"""One run of the benchmark's job between an outside producer and consumer, all on this machine; shared by the
benchmarks' commands."""

import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flamestream.job.manifest_rules import UNJOURNALLED
from harness import JOBS, PATHS
from harness.job_file import manifest_of, run_command

DEADLINE = 600.0
FUNCTIONS = {
    "rows": ("workload.py", "graph"), "ready-made": ("workload.py", "ready_made"),
    "columns": ("workload_columns.py", "graph"), "big values": ("big_values.py", "graph"),
    "slow words": ("slow_words.py", "graph"),
}  # fmt: skip
"""The job's functions: a user's own, with ready-made ones behind the words, with a vectorised one for the
words too; of big_state.py."""


@dataclass(slots=True)
class Outcome:
    """What came out of one run, in milliseconds where it is time."""

    latencies: list[float]
    gap: float
    """The longest time between two deliveries, after the warm-up."""
    lost: int
    doubled: int
    disorder: int
    records: int
    seconds: float
    """From the first document sent to the last change received."""
    deliveries: list[float]
    """When each one came, on the machine's monotonic clock."""
    points: list[tuple[float, float]]
    """Of every document, also of the warm-up: when it was due, on that clock, and its latency."""
    extra: dict[str, Any] = field(default_factory=dict)

    def percentile(self, q: float) -> float:
        """Of the documents' latencies."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    def row(self) -> dict[str, Any]:
        """For tables and JSON."""
        quantiles = (
            {f"p{q}": round(self.percentile(q / 100), 2) for q in (50, 75, 95, 99)} if self.latencies else {}
        )
        counts = {
            "gap_ms": round(self.gap, 1),
            "lost": self.lost,
            "doubled": self.doubled,
            "disorder": self.disorder,
        }
        rate = round(self.records / self.seconds) if self.seconds else 0
        return (
            quantiles
            | counts
            | {"records": self.records, "records_per_s": rate, "seconds": round(self.seconds, 1)}
            | self.extra
        )


@dataclass(slots=True)
class Settings:
    """Of one run."""

    guarantee: str = "exactly-once"
    interval: str = "1s"
    documents: int = 1500
    rate: float = 50.0
    warm_up: int = 250
    """Documents at the beginning that do not count."""
    workers: int = 2
    most_workers: int = 0
    """As many may take part, `workers` at least; 0: always `workers`."""
    standby: int = 0
    spark: bool = True
    master: str = ""
    mean: int = 250
    functions: str = "rows"
    store: str = ""
    """Where snapshots go; "": a folder of the run's own."""
    fsync: bool = True
    """Of the journal: as users have it. Without, it survives processes and not the machine."""
    lines: Path | None = None
    """Documents instead of the corpus; the first `fill` of them leave as fast as they are taken."""
    fill: int = 0
    deadline: float = DEADLINE


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def manifest(settings: Settings, folder: Path, source: int, sink: int) -> dict[str, Any]:
    """The job, with sockets at both ends."""
    file, graph = FUNCTIONS[settings.functions]
    spec: dict[str, Any] = {
        "application": {"file": str(JOBS / file), "graph": graph},
        "sources": {"docs": {"socket": {"address": f"127.0.0.1:{source}"}}},
        "sinks": {"index": {"socket": {"address": f"127.0.0.1:{sink}"}}},
        "guarantee": settings.guarantee,
        "workers": {**_workers(settings), "standby": settings.standby},
        "checkpoint": {"interval": settings.interval, "store": settings.store or str(folder / "store")},
    }
    if settings.guarantee not in UNJOURNALLED:
        spec["journal"] = {"folder": str(folder / "journal"), "fsync": settings.fsync}
    if settings.master:
        spec["spark"] = {"master": settings.master}
    return manifest_of("bench", spec)


def _workers(settings: Settings) -> dict[str, int]:
    if settings.most_workers:
        return {"min": settings.workers, "max": settings.most_workers}
    return {"replicas": settings.workers}


def run(settings: Settings, during: Callable[[Path], None] | None = None) -> Outcome:
    """Run the job to its end. `during` is called in a thread with the run folder once results come, for
    deliberate faults."""
    with tempfile.TemporaryDirectory(prefix="flamestream-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        source, sink = free_port(), free_port()
        consumer = stack.enter_context(_outside("consumer", sink, folder / "received.json"))
        documents = [
            "--documents",
            str(settings.documents),
            "--rate",
            str(settings.rate),
            "--mean",
            str(settings.mean),
            "--fill",
            str(settings.fill),
        ]
        documents += ["--lines", str(settings.lines)] if settings.lines else []
        producer = stack.enter_context(_outside("producer", source, folder / "sent.json", *documents))
        command = run_command(folder, manifest(settings, folder, source, sink))
        log = (folder / "engine.log").open("wb")
        engine = subprocess.Popen(
            [*command, *([] if settings.spark else ["--no-spark"])],
            stdout=log,
            stderr=log,
            env=_environment(),
        )
        stack.callback(_end, engine)
        helper = threading.Thread(target=during, args=(folder / "run",), daemon=True) if during else None
        if helper:
            helper.start()
        if engine.wait(settings.deadline) != 0:
            raise SystemExit(
                f"the job ended with {engine.returncode}:\n{(folder / 'engine.log').read_text()[-4000:]}"
            )
        for process in (producer, consumer):
            process.terminate()
            process.wait(120)
        return measured(
            json.loads((folder / "sent.json").read_text()),
            json.loads((folder / "received.json").read_text()),
            settings.warm_up,
        )


def measured(sent: dict[str, Any], received: dict[str, Any], warm_up: int) -> Outcome:
    """Latency: from when a document was due to the receipt of its last change. `late_ms` in the row: how much
    behind that the sending was, at the 99th percentile; the outside's own slowness, or the system's that let
    it wait."""
    last = {int(document): when for document, when in received["last"].items()}
    counts = {int(document): count for document, count in received["counts"].items()}
    expected = sent["expected"]
    points = {i: (when, (last[i] - when) * 1e3) for i, when in enumerate(sent["due"]) if i in last}
    latencies = [latency for i, (_, latency) in points.items() if i >= warm_up]
    after = [when for when in received["deliveries"] if when >= sent["sent"][min(warm_up, len(expected) - 1)]]
    behind = sorted(left - due for due, left in zip(sent["due"], sent["sent"], strict=True))
    late = round(behind[int(0.99 * len(behind))] * 1e3, 2) if behind else 0.0
    return Outcome(
        latencies,
        max((b - a for a, b in itertools.pairwise(after)), default=0.0) * 1e3,
        sum(max(0, expected[i] - counts.get(i, 0)) for i in range(len(expected))),
        sum(max(0, counts.get(i, 0) - expected[i]) for i in range(len(expected))),
        received["disorder"],
        sum(counts.values()),
        max(last.values(), default=0.0) - sent["sent"][0],
        received["deliveries"],
        list(points.values()),
        {"late_ms": late} | _steady(last, expected, warm_up),
    )


def _steady(last: dict[int, float], expected: list[int], warm_up: int) -> dict[str, Any]:
    """Change records a second behind the warm-up, and the seconds of it: from when its last document was
    through to the last change."""
    if not 0 < warm_up < len(expected) or warm_up - 1 not in last or max(last) < warm_up:
        return {"steady_per_s": 0, "steady_s": 0.0}
    took = max(last.values()) - max(last.get(i, 0.0) for i in range(warm_up))
    # What came in one piece has no rate.
    return {
        "steady_per_s": round(sum(expected[warm_up:]) / took) if took > 0.2 else 0,
        "steady_s": round(took, 1),
    }


def noise() -> dict[str, Any]:
    """How busy this machine is: load, and the jitter of a 1 ms timer (p50 and p99 of its lateness, ms)."""
    late = []
    for _ in range(200):
        start = time.monotonic()
        time.sleep(0.001)
        late.append((time.monotonic() - start - 0.001) * 1e3)
    late.sort()
    return {
        "load": round(os.getloadavg()[0], 2),
        "timer_p50_ms": round(statistics.median(late), 3),
        "timer_p99_ms": round(late[197], 3),
    }


def _environment() -> dict[str, str]:
    path = os.pathsep.join([*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


@contextlib.contextmanager
def _outside(role: str, port: int, report: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "harness.outside",
        role,
        "--port",
        str(port),
        "--report",
        str(report),
        *more,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment())
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", f"the {role} did not start"
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
