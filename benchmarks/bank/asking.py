"""Clients that ask a bank for balances, each a process of its own: `python -m bank.asking URL SECONDS AT PAUSE`.

Each asks for one account after the other, strictly or not, and tells how long that took.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, cast

from harness import BENCHMARKS, PATHS
from harness.results import percentile

import flamestream
from flamestream.live.port import At

ENVIRONMENT: Final = os.environ | {"PYTHONPATH": os.pathsep.join([*PATHS, str(BENCHMARKS)])}


@dataclass(slots=True)
class Clients:
    """Processes that ask while a phase lasts."""

    at: str
    count: int
    pause: float = 0.0
    """Seconds between two questions of one of them."""
    _running: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start(self, port: int, seconds: float) -> None:
        """Begin to ask at a port, for so long."""
        url = f"http://127.0.0.1:{port}/v1/jobs/bank"
        command = [sys.executable, "-m", "bank.asking", url, f"{seconds}", self.at, f"{self.pause}"]
        self._running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
            for _ in range(self.count)
        ]

    def told(self) -> dict[str, Any]:
        """All that they have told, in short."""
        told = [json.loads(process.communicate()[0]) for process in self._running]
        took = sorted(ms for each in told for ms in each["ms"])
        return {
            "n": len(took), "per_s": round(sum(each["per_s"] for each in told)),
            "p50_ms": round(percentile(took, 50), 2), "p99_ms": round(percentile(took, 99), 2),
        }  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    url, seconds, at, pause = arguments
    rng, took, begin = Random(), list[float](), time.monotonic()
    with flamestream.connect(url, timeout=30.0) as job:
        accounts = job.table("accounts")
        while (before := time.monotonic()) < begin + float(seconds):
            accounts.get(rng.randrange(100_000), at=cast("At", at))
            took.append((time.monotonic() - before) * 1e3)
            time.sleep(float(pause))
    print(json.dumps({"ms": took, "per_s": len(took) / (time.monotonic() - begin)}))


if __name__ == "__main__":
    main(sys.argv[1:])
