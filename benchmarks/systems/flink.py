"""Flink in Java: a local cluster in one JVM, its jars from Maven Central, its output released when a
checkpoint is complete."""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.flink_parts import OPENED

from systems.base import AT_LEAST_ONCE, EXACTLY_ONCE, NONE, Cell, Command, NotHere, Places, Setting, System
from systems.environments import CACHE

SOURCE = Path(__file__).resolve().parent.parent / "peers" / "flink"
BUILT = CACHE / "flink"


class Flink(System):
    """One task manager in one JVM, a slot a core: an exchange between slots crosses no socket, which is in
    its favour."""

    name = "flink"
    form = "lines"
    guarantees: Sequence[str] = (NONE, AT_LEAST_ONCE, EXACTLY_ONCE)
    pace = None
    settles = 0.0

    def prepare(self) -> None:
        """Build the job and copy what it runs with: half a minute, once."""
        build(SOURCE, BUILT)

    def versions(self) -> dict[str, str]:
        found = re.search("<flink.version>(.*)<", (SOURCE / "pom.xml").read_text())
        java = (
            subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
            if shutil.which("java")
            else "none"
        )
        return {"flink": found[1] if found else "?", "java": java.partition('"')[2].partition('"')[0]}

    def settings(self, cell: Cell) -> list[Setting]:
        settings = [
            Setting("taskmanager.numberOfTaskSlots", str(cell.workers), "the machine's cores"),
            self._buffer_timeout(cell),
            Setting(
                "pipeline.object-reuse",
                "true",
                "no copies between chained operators: safe here, and asked for by the tuning guide",
            ),
            Setting("state.backend.type", "hashmap", "the fastest for state that fits in memory"),
            Setting("restart-strategy.type", "disable", "a failure ends the run"),
        ]
        if cell.guarantee == NONE:
            return settings
        mode = "EXACTLY_ONCE" if cell.guarantee == EXACTLY_ONCE else "AT_LEAST_ONCE"
        return [
            *settings,
            Setting("execution.checkpointing.interval", f"{cell.interval_ms} ms", "asked for by the cell"),
            Setting("execution.checkpointing.mode", mode, "asked for by the cell"),
            Setting("execution.checkpointing.min-pause", "0 ms", "else short intervals are stretched"),
            Setting("execution.checkpointing.storage", "filesystem", "as a job that is to survive"),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        files = [setting for setting in self.settings(cell) if "." in setting.name]
        given = [f"{setting.name}={setting.value}" for setting in files]
        if cell.guarantee != NONE:
            given.append(f"execution.checkpointing.dir=file://{places.folder}/checkpoints")
        flush = "5" if not cell.rate else "0"
        job = [
            places.source,
            places.sink,
            cell.guarantee,
            str(cell.workers),
            flush,
            str(places.folder / "pending"),
        ]
        return Command(in_java("InvertedIndex", *job, *given, memory="10g"))

    def _buffer_timeout(self, cell: Cell) -> Setting:
        reason = (
            "0: every record leaves at once, which the documentation names for the least latency; 100 (its "
            "default) for throughput"
        )
        return Setting("execution.buffer-timeout.interval", f"{0 if cell.rate else 100} ms", reason)


class FlinkTail(Flink):
    """The same with its best settings for the tail, and for noticing failures. At full rate it is the other
    one."""

    name = "flink 1 ms"
    guarantees = (NONE, EXACTLY_ONCE)

    def settings(self, cell: Cell) -> list[Setting]:
        return [
            *super().settings(cell),
            Setting(
                "heartbeat.interval",
                "500 ms",
                "20 times the default's pace, for noticing a failure soon; here it shows what that costs",
            ),
            Setting("heartbeat.timeout", "2500 ms", "five intervals, as the default"),
        ]

    def _buffer_timeout(self, cell: Cell) -> Setting:
        reason = (
            "1: fewer, larger buffers; of 0, 1 and 5 ms it had the least p99, and 0 the least median "
            "(docs/authors/benchmarks.md)"
        )
        return Setting("execution.buffer-timeout.interval", f"{1 if cell.rate else 100} ms", reason)


def in_java(job: str, *arguments: str, memory: str = "4g") -> list[str]:
    """What runs a job of peers/flink: the name of its class, what it is given, and the most memory of its JVM."""
    return java(f"peer.{job}", *arguments, least="1g", most=memory)


def java(name: str, *arguments: str, least: str, most: str) -> list[str]:
    """What runs a class of Flink's or of peers/flink, with the memory of its JVM."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"  # a line a checkpoint would be measured, too
    return ["java", f"-Xms{least}", f"-Xmx{most}", quiet, *OPENED, "-cp", f"{BUILT}/*", name, *arguments]


def build(source: Path, built: Path) -> None:
    """What the pom of `source` says, with the jars that it runs with, in `built`; quick when that is done.
    Raises NotHere."""
    fetch(source, built, "package", "dependency:copy-dependencies")


def fetch(source: Path, built: Path, *goals: str) -> None:
    """What Maven's `goals` make of `source`, in `built`; quick when that is done. Raises NotHere."""
    stamp, wanted = built / ".made-from", _fingerprint(source)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        raise NotHere(
            "it needs Maven and a Java development kit >= 17 (Debian: maven, openjdk-17-jdk-headless)"
        )
    print(f"benchmarks: fetching and building {source.name} in {built}", file=sys.stderr)
    places = ["-DincludeScope=runtime", f"-DoutputDirectory={built}", f"-Dout={built}"]
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(source / "pom.xml"), *goals, *places],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotHere(f"Maven failed:\n{done.stdout[-2000:]}")
    stamp.write_text(wanted)


def _fingerprint(source: Path) -> str:
    digest = hashlib.sha256()
    for file in [source / "pom.xml", *sorted(file for file in (source / "src").rglob("*") if file.is_file())]:
        digest.update(file.read_bytes())
    return digest.hexdigest()
