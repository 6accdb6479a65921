"""How long the output stands still when a part of a running job is killed with SIGKILL.

    python benchmarks recovery                                  # the table of docs/explanation/performance.md
    python benchmarks recovery --kills worker,standby --times 9
    python benchmarks recovery --kills worker --guarantee exactly-once-2pc

The benchmark's job takes documents at a fixed rate between an outside producer and consumer. The gap of a
kill is the longest time between two deliveries around it, seen by the consumer; without a kill it is one over
the rate, and the table says how much more it was at times when nothing was killed. A kill comes a random
while after the job was whole again.

    kill           what is killed
    worker         a Python worker, without a standby: its task is started again by Spark
    standby        a Python worker, with a standby that takes over
    executor       the JVM of an executor, in local-cluster mode, with its daemon and worker
    coordinator    the coordinator: costs no output at all
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.drive import where
from harness.job import Outcome, Settings, noise, run

KINDS = {
    "worker": Settings(interval="500ms"),
    "standby": Settings(interval="500ms", standby=1),
    "executor": Settings(interval="500ms", master="local-cluster[2,1,512]"),
    "coordinator": Settings(interval="500ms"),
}
CALM = (3.0, 5.0)
"""Seconds of normal life before a kill."""
OUTAGE = 8.0
"""Seconds that a kill may cost and still leave documents for the next."""
BACK_WITHIN = 120.0
SETTLED = 1.0
"""Seconds behind a recovery that still belong to it."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One of them, on the monotonic clock."""

    at: float
    back: float
    """When the job was seen to be whole again."""
    victim: str
    recovery_ms: float
    """Of it, from the coordinator's notice to the replay, as the coordinator says."""


class Running:
    """The job while it runs, by the files in its run folder (docs/reference/cli.md)."""

    def __init__(self, folder: Path, kind: str, times: int, seed: int) -> None:
        self._folder, self._kind, self._times, self._rng = folder, kind, times, random.Random(seed)
        self.kills: list[Kill] = []

    def strike(self) -> None:
        """Every kill, each after a calm while."""
        self._await(self._whole)
        for _ in range(self._times):
            time.sleep(self._rng.uniform(*CALM))
            before = self._read("status.json")
            name, pid = self._victim(before)
            at = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            if self._kind == "coordinator":
                after = self._await(partial(self._is_of_another, "pid", pid))
            else:
                after = self._await(partial(self._is_of_another, "attempt", before["attempt"]))
            recovery = after["last_recovery"] if self._kind != "coordinator" else None
            self.kills.append(Kill(at, time.monotonic(), name, recovery["duration_ms"] if recovery else 0.0))

    def _is_of_another(self, what: str, before: int, status: dict[str, Any]) -> bool:
        return self._whole(status) and bool(status[what] != before)

    def _whole(self, status: dict[str, Any]) -> bool:
        settings = KINDS[self._kind]
        there = (len(status["workers"]), len(status["standbys"])) == (settings.workers, settings.standby)
        return bool(status["phase"] == "running" and there)

    def _victim(self, status: dict[str, Any]) -> tuple[str, int]:
        if self._kind == "coordinator":
            return "coordinator", int(self._read("run.json")["coordinator"])
        worker = self._rng.choice(status["workers"])
        pid = int(self._read(f"workers/{worker['worker']}.json")["pid"])
        if self._kind == "executor":
            pid = _parent(_parent(pid))
        return f"{worker['worker']}{' (reads the source)' if worker['items_in'] else ''}", pid

    def _await(self, good: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + BACK_WITHIN
        while time.monotonic() < deadline:
            if (self._folder / "status.json").exists() and good(status := self._read("status.json")):
                return status
            time.sleep(0.01)
        raise SystemExit(f"the job is not whole within {BACK_WITHIN:g} s: {self._read('status.json')}")

    def _read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._folder / name).read_text())
        return found


def watch(kind: str, times: int, rate: float, seed: int) -> tuple[Outcome, list[Kill]]:
    """A run with kills of one kind."""
    settings = KINDS[kind]
    settings.rate, settings.documents, settings.warm_up = (
        rate,
        int(rate * (10 + times * (CALM[1] + OUTAGE))),
        int(rate * 2),
    )
    struck = None

    def during(folder: Path) -> None:
        nonlocal struck
        struck = Running(folder, kind, times, seed)
        struck.strike()

    outcome = run(settings, during)
    assert struck is not None, "the job ran"
    return outcome, struck.kills


def measure(kind: str, times: int, rate: float, seed: int) -> dict[str, Any]:
    """The row of one kind of kill."""
    before = noise()
    outcome, kills = watch(kind, times, rate, seed)
    gaps = [gap_of(outcome, kill) for kill in kills]
    for kill, gap in zip(kills, gaps, strict=True):
        print(
            f"  {kind}: {kill.victim}: gap {gap:.0f} ms, of it {kill.recovery_ms:.0f} ms recovery",
            file=sys.stderr,
        )
    calm = [
        _gap([when for when in outcome.deliveries if when <= kill.at], kill.at - CALM[0] + SETTLED, kill.at)
        for kill in kills
    ]
    counts = {"lost": outcome.lost, "doubled": outcome.doubled, "disorder": outcome.disorder}
    row = {
        "kill": kind,
        "guarantee": KINDS[kind].guarantee,
        "n": len(gaps),
        "gap_ms": _middle(gaps),
        "least_ms": round(min(gaps)),
        "most_ms": round(max(gaps)),
    }
    recovery = _middle([kill.recovery_ms for kill in kills])
    return row | {"recovery_ms": recovery, "calm_gap_ms": _middle(calm)} | counts | before | where()


def gap_of(outcome: Outcome, kill: Kill) -> float:
    """How long the output stood still around it, in ms."""
    return _gap(outcome.deliveries, kill.at, kill.back + SETTLED)


def _gap(deliveries: list[float], since: float, until: float) -> float:
    """The longest time between two deliveries, the second of them in this stretch (or the first behind it),
    in ms."""
    gaps = [after - before for before, after in pairwise(deliveries) if after > since and before < until]
    return max(gaps, default=float("nan")) * 1e3


def _middle(values: list[float]) -> int:
    return round(statistics.median(values))


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", default="worker,standby,executor,coordinator")
    parser.add_argument("--times", type=int, default=7, help="kills of a kind")
    parser.add_argument("--rate", type=float, default=50.0, help="documents a second")
    parser.add_argument("--guarantee", default="exactly-once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for kind in options.kills.split(","):
        KINDS[kind].guarantee = options.guarantee
        row = measure(kind, options.times, options.rate, options.seed)
        print(
            json.dumps(row) if options.json else "  ".join(f"{key}={value}" for key, value in row.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
