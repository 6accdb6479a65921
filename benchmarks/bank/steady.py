"""Strict questions at a steady rate: wrk (Debian's) with a script (steady.lua), which asks from one thread for a
hundredth of what a client in Python would take of two cores.

Does not: compare what is answered with anything (runs/tables and the simulator do).
"""

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from systems.base import Failed

from bank.workloads import ACCOUNTS

SCRIPT: Final = Path(__file__).with_suffix(".lua")
CONNECTIONS: Final = 64


@dataclass(slots=True)
class Steady:
    """So many questions a second, whatever the answers take."""

    rate: int
    _running: "subprocess.Popen[str] | None" = field(default=None)

    def start(self, port: int, seconds: float) -> None:
        """Begin to ask at a port, for so long. Raises Failed."""
        if (wrk := shutil.which("wrk")) is None:
            raise Failed("no wrk here: apt-get install wrk")
        shape = f"--threads 1 --connections {CONNECTIONS} --duration {seconds:.0f}s --script {SCRIPT}".split()
        url = f"http://127.0.0.1:{port}/v1/jobs/bank/query"
        command = [wrk, *shape, url, "--", str(self.rate), str(ACCOUNTS)]
        self._running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def told(self) -> dict[str, Any]:
        """What the answers took. Raises Failed."""
        assert self._running is not None, "it was never started"
        told, _ = self._running.communicate()
        if self._running.returncode:
            raise Failed(f"wrk ended with {self._running.returncode}: {told}")
        found: dict[str, Any] = json.loads(told.splitlines()[-1])
        if found["failed"]:
            raise Failed(f"{found['failed']} questions had no answer")
        return found
