"""What the driver needs to know of a system: how to make it ready, start it on a job, stop it, and what to
tell about it.

A system is a command: it gets where the producer and the consumer listen, and runs until it is stopped.
`form` says what it speaks: `wire` (docs/reference/wire-protocol.md, ours), `lines` (lines.py), or `kafka`
(topics; kafka_outside.py).

Keeps: a peer's packages stay in an environment of its own (environments.py). Does not: measure anything
(drive.py).
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Form = Literal["wire", "lines", "kafka"]
NONE, AT_LEAST_ONCE, EXACTLY_ONCE, TWO_PHASES = "none", "at-least-once", "exactly-once", "exactly-once-2pc"
AT_MOST_ONCE, PRODUCTIONS = "at-most-once", "strong-productions"


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured: the job, its load, and what it has to hold."""

    guarantee: str = EXACTLY_ONCE
    interval_ms: int = 1000
    """Between checkpoints, epochs or commits, whatever the system calls them."""
    documents: int = 1500
    warm_up: int = 250
    """Documents at the beginning that do not count."""
    rate: float = 50.0
    """Documents a second; 0: as fast as they are taken."""
    mean: int = 250
    """Words of a document."""
    workers: int = 2


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run is: addresses (or topics, for `kafka`) of its two ends, and a folder for its files."""

    source: str
    sink: str
    folder: Path
    brokers: str = ""
    group: str = ""
    """What its consumers have to call themselves."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One that is not the system's default, or that matters, and why it has this value."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Command:
    """What starts a system."""

    argv: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)


class System(Protocol):
    """One that runs the job."""

    name: str
    form: Form
    guarantees: Sequence[str]
    """What it can promise for this job, and is measured with."""
    pace: float | None
    """Documents a second that it carries on a small machine, if that is less than others are measured at."""
    settles: float
    """Seconds from its first document until it is as fast as it will be, if that is longer than others
    take."""

    def prepare(self) -> None:
        """Fetch and build what it needs; quick when that is done."""

    def versions(self) -> dict[str, str]:
        """Of what it is made of."""

    def settings(self, cell: Cell) -> list[Setting]:
        """For people, and for the record."""

    def command(self, cell: Cell, places: Places) -> Command:
        """Its job, in the foreground."""


class NotHere(Exception):
    """A system cannot run on this machine; the message says what it needs."""


class Failed(Exception):
    """A run came to no result; the message says what the system said last."""


@dataclass(slots=True)
class Running:
    """A system's processes."""

    process: subprocess.Popen[bytes]
    log: Path

    def tail(self) -> str:
        """What it said last."""
        return self.log.read_text(errors="replace")[-4000:]


def start(command: Command, folder: Path) -> Running:
    """In a process group of its own, so that all of it can be stopped."""
    log = folder / "system.log"
    with log.open("wb") as output:
        environment = {**os.environ, **command.environment}
        process = subprocess.Popen(
            list(command.argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    return Running(process, log)


def stop(running: Running, patience: float = 5.0) -> None:
    """All of its processes."""
    for wish in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(running.process.pid, wish)
            running.process.wait(patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    running.process.wait()
