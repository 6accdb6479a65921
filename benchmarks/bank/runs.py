"""A run of transactions between a producer and a consumer: what leaves and comes when, judged by a serial run.

Ours runs as plain processes without Spark: its virtual machine has no part in a transaction. The floor is a loop over
a dict between the same sockets (peers/bank_loop.py), which keeps nothing.

Keeps: no process outlives its run; a run with a fault says so in its result. Does not: say what is run (figure.py).
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
from harness import BENCHMARKS, JOBS, PATHS
from harness.job import free_port
from harness.job_file import manifest_of, run_command
from harness.report import CACHE
from harness.results import percentile
from nexmark.outside import Past, Phase
from nexmark.paced import STARTED_WITHIN, await_end, outside
from systems.base import Command, Failed, start, stop

from bank import serial
from bank.judge import Faults, Write, judged
from bank.outside import QUIET
from bank.serial import Outcome, Serial
from bank.workloads import Workload, lines
from flamestream import Aborted
from flamestream import Write as Changed

PAUSE: Final = 1.0
"""Seconds between phases."""
ENDS_WITHIN: Final = 60.0
RECOVERS_WITHIN: Final = 10.0
"""Seconds for which a job may be silent behind its last record, where workers were killed."""
LOOP: Final = BENCHMARKS / "peers" / "bank_loop.py"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a job of ours: its defaults, but for what is said."""

    workers: int = 1
    standby: int = 0
    interval: str = "1s"
    guarantee: str = "exactly-once"
    fsync: bool = True
    """Whether its journal waits for the disk."""
    port: int = 0
    """Where it can be asked; 0: nowhere."""


@dataclass(frozen=True, slots=True)
class Came:
    """What came in a run, decoded."""

    outcomes: list[tuple[float, Outcome]]
    """In the order in which they came, with when."""
    writes: list[Write]


@dataclass(frozen=True, slots=True)
class Ran:
    """A run, with what was to come of it."""

    pasts: dict[str, Past]
    came: Came
    serial: Serial
    kills: list[float]

    @property
    def faults(self) -> Faults:
        """Of all outcomes."""
        return judged((outcome for _, outcome in self.came.outcomes), self.serial)

    def latencies(self, phase: str) -> list[float]:
        """Of the transactions of a phase with a pace, ms, from when each was due."""
        past = self.pasts[phase]
        return [
            (when - past.due(outcome[0])) * 1e3
            for when, outcome in self.came.outcomes
            if past.first <= outcome[0] < past.end
        ]

    def paced(self, phase: str) -> dict[str, Any]:
        """Its latencies in short. Behind the rate: what came out while it lasted is less than 98% of what was due."""
        past, found = self.pasts[phase], self.latencies(phase)
        if not found:
            return {"rate": round(past.rate), "reason": "no outcome came"}
        until = past.due(past.end) + PAUSE
        in_time = sum(when <= until for when, each in self.came.outcomes if past.first <= each[0] < past.end)
        return {
            "rate": round(past.rate), "n": len(found), "mean_ms": round(sum(found) / len(found), 2),
            "p50_ms": round(percentile(found, 50), 2), "p99_ms": round(percentile(found, 99), 2),
            "carried": in_time >= 0.98 * past.count,
        }  # fmt: skip

    def rate(self, phase: str) -> float:
        """Outcomes a second of a phase, behind its first quarter."""
        past = self.pasts[phase]
        when = [at for at, outcome in self.came.outcomes if past.first <= outcome[0] < past.end]
        behind = when[len(when) // 4 :]
        return (len(behind) - 1) / (behind[-1] - behind[0]) if len(behind) > 1 else 0.0

    def gap(self, kill: float, within: float) -> float:
        """The longest time between two outcomes around a kill, ms."""
        times = sorted({when for when, _ in self.came.outcomes})
        first = max(0, bisect_left(times, kill) - 1)
        last = bisect_left(times, kill + within) + 1
        return max((after - before for before, after in pairwise(times[first:last])), default=0.0) * 1e3


def ours(workload: Workload, settings: Settings) -> Callable[[int, Sequence[int], Path], Command]:
    """What starts a job of ours between ports, in a folder."""

    def command(source: int, sinks: Sequence[int], folder: Path) -> Command:
        names = dict(zip(workload.sinks, sinks, strict=True))
        spec: dict[str, Any] = {
            "application": {"file": str(JOBS / "bank_graphs.py"), "graph": workload.graph},
            "sources": {"lines": {"socket": {"address": f"127.0.0.1:{source}"}}},
            "sinks": {name: {"socket": {"address": f"127.0.0.1:{port}"}} for name, port in names.items()},
            "guarantee": settings.guarantee,
            "workers": {"replicas": settings.workers, "standby": settings.standby},
            "checkpoint": {"interval": settings.interval, "store": str(folder / "store")},
        }
        if settings.port:
            spec["queries"] = {
                "listen": f"127.0.0.1:{settings.port}",
                "share": 1.0,
            }  # else they are held back
        if settings.guarantee != "none":
            spec["journal"] = {"folder": str(folder / "journal")} | (
                {} if settings.fsync else {"fsync": False}
            )
        path = os.pathsep.join(filter(None, [*PATHS, os.environ.get("PYTHONPATH")]))
        return Command([*run_command(folder, manifest_of("bank", spec)), "--no-spark"], {"PYTHONPATH": path})

    return command


def loop(workload: Workload) -> Callable[[int, Sequence[int], Path], Command]:
    """What starts the plain loop."""

    def command(source: int, sinks: Sequence[int], folder: Path) -> Command:
        return Command([sys.executable, str(LOOP), f"127.0.0.1:{source}", f"127.0.0.1:{sinks[0]}"])

    return command


def ran(
    workload: Workload, phases: Sequence[Phase], command: Callable[[int, Sequence[int], Path], Command],
    *, form: str = "wire", kills: Sequence[float] = (), beside: Callable[[str], None] = lambda phase: None,
) -> Ran:  # fmt: skip
    """Run it. `kills`: seconds into the last phase at which a worker is killed; `beside` is told of each phase as it
    begins. Raises Failed."""
    file = lines_file(workload, sum(phase.most for phase in phases))
    struck = list[float]()
    with (
        tempfile.TemporaryDirectory(prefix="flamestream-bench-", ignore_cleanup_errors=True) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        source, sinks = free_port(), [free_port() for _ in (workload.sinks if form == "wire" else "1")]
        given = ["--events", str(file), "--phases", json.dumps(list(map(asdict, phases)))]
        given += ["--pause", str(PAUSE), "--recovers", "0"]
        ports = ",".join(map(str, sinks))
        consumer = stack.enter_context(
            outside("consumer", form, ports, folder / "received", module="bank.outside")
        )
        producer = stack.enter_context(outside("producer", form, source, folder / "sent", *given))
        running = start(command(source, sinks, folder), folder)
        stack.callback(stop, running)

        def begins(phase: str) -> None:
            beside(phase)
            if kills and phase == phases[-1].name:
                threading.Thread(target=_strike, args=(folder / "run", kills, struck), daemon=True).start()

        seconds = STARTED_WITHIN + sum(phase.seconds + PAUSE for phase in phases)
        await_end(producer, running, seconds, begins)
        await_quiet(consumer, RECOVERS_WITHIN if kills else QUIET)
        stop(running)
        if len(struck) < len(kills):
            raise Failed(
                f"{len(struck)} of {len(kills)} workers were killed: the job was not running again in time"
            )
        for process in (producer, consumer):
            process.terminate()
            process.wait(300)
        if consumer.returncode:
            raise Failed(f"what came is no output of a job: the consumer ended with {consumer.returncode}")
        pasts = [Past(**past) for past in json.loads((folder / "sent").read_text())]
        received = msgspec.msgpack.decode((folder / "received").read_bytes())
    sent = file.read_bytes().splitlines()[: pasts[-1].end]
    came = (of_wire if form == "wire" else of_lines)(received)
    return Ran({past.name: past for past in pasts}, came, serial.run(workload.graph, sent), struck)


def await_quiet(consumer: "subprocess.Popen[bytes]", least: float = QUIET) -> None:
    """Until the consumer says that nothing comes any more, and so many seconds at least: what it said in pauses before
    is passed over."""
    assert consumer.stdout is not None
    pipe, said, begin = consumer.stdout, threading.Event(), time.monotonic() + least

    def listen() -> None:
        for _ in iter(pipe.readline, b""):
            if time.monotonic() > begin:
                break
        said.set()

    threading.Thread(target=listen, daemon=True).start()
    said.wait(ENDS_WITHIN)


def _strike(run_folder: Path, kills: Sequence[float], struck: list[float]) -> None:
    """Kill one worker after the other, each at its time, or when the one before is recovered from."""
    begin = time.monotonic()
    for turn, kill in enumerate(kills):
        time.sleep(max(0.0, begin + kill - time.monotonic()))
        while (victim := victim_of(run_folder, turn)) is None:
            time.sleep(0.05)
        struck.append(time.monotonic())
        os.kill(victim, signal.SIGKILL)


def victim_of(run_folder: Path, turn: int) -> int | None:
    """The process of the worker whose turn it is; None while the job recovers, and has none that could be killed."""
    status = json.loads((run_folder / "status.json").read_text())
    if status["phase"] != "running" or not (workers := status["workers"]):
        return None
    name = workers[turn % len(workers)]["worker"]
    process = json.loads((run_folder / "workers" / f"{name}.json").read_text())["pid"]
    return int(process) if Path(f"/proc/{process}").exists() else None


def lines_file(workload: Workload, count: int) -> Path:
    """The file with so many lines or more, made if it is not there."""
    file = CACHE / "bank" / f"{workload.name.replace(' ', '-')}-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.with_suffix(".part")
        with whole.open("wb") as out:
            out.writelines(line + b"\n" for line in lines(workload, count))
        whole.rename(file)
    return file


def of_wire(received: Iterable[tuple[float, list[bytes]]]) -> Came:
    """What came in bundles of our protocol."""
    import bank_graphs  # registers the payload types  # noqa: F401

    from flamestream.model.payload import decode_items

    found = Came([], [])
    for when, bundles in received:
        for items in bundles:
            for _, payload in decode_items(items):
                if isinstance(payload, Changed):
                    found.writes.append((payload.table, payload.key, payload.before, payload.after))
                else:
                    found.outcomes.append((when, outcome_of(payload)))
    return found


def outcome_of(payload: Any) -> Outcome:
    """As the serial run has it: the fields of a result, or of what was refused."""
    if isinstance(payload, Aborted):
        return payload.transaction.id, payload.reason, payload.table, payload.key
    return tuple(getattr(payload, field.name) for field in dataclasses.fields(payload))


def of_lines(received: Iterable[tuple[float, list[bytes]]]) -> Came:
    """What came in lines of JSON arrays."""
    decode = msgspec.json.decode
    return Came([(when, tuple(decode(line))) for when, its in received for line in its], [])
