"""Strict questions at a steady rate: wrk (Debian's) with a script (steady.lua), which asks from one thread for a
hundredth of what a client in Python would take of two cores. What it takes nevertheless is told by the same questions
to nginx (Debian's), which answers each with the same bytes.

Does not: compare what is answered with anything (runs/tables and the simulator do).
"""

import json
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.job import free_port
from systems.base import Failed

from bank.workloads import ACCOUNTS

SCRIPT: Final = Path(__file__).with_suffix(".lua")
CONNECTIONS: Final = 64


ANSWER: Final = '{"time":"1234567890123456","rows":[{"name":"accounts","key":1,"state":1000}]}'
NGINX: Final = """worker_processes 1; pid {folder}/pid; error_log stderr;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type application/json; client_body_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{answer}'; }} }}
}}
"""


@dataclass(slots=True)
class Steady:
    """So many questions a second, whatever the answers take."""

    rate: int
    plain: bool = False
    """Whether nginx is asked, and not the job."""
    _running: "subprocess.Popen[str] | None" = field(default=None)
    _open: ExitStack = field(default_factory=ExitStack)

    def start(self, port: int, seconds: float) -> None:
        """Begin to ask at a port, for so long. Raises Failed."""
        if (wrk := shutil.which("wrk")) is None:
            raise Failed("no wrk here: apt-get install wrk")
        if self.plain:
            port = self._serve()
        shape = f"--threads 1 --connections {CONNECTIONS} --duration {seconds:.0f}s --script {SCRIPT}".split()
        url = f"http://127.0.0.1:{port}/v1/jobs/bank/query"
        command = [wrk, *shape, url, "--", str(self.rate), str(ACCOUNTS)]
        self._running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def told(self) -> dict[str, Any]:
        """What the answers took. Raises Failed."""
        assert self._running is not None, "it was never started"
        told, _ = self._running.communicate()
        self._open.close()
        if self._running.returncode:
            raise Failed(f"wrk ended with {self._running.returncode}: {told}")
        found: dict[str, Any] = json.loads(told.splitlines()[-1])
        if found["failed"]:
            raise Failed(f"{found['failed']} questions had no answer")
        return found

    def _serve(self) -> int:
        """nginx, and the port that it listens at before this returns. Raises Failed."""
        if (nginx := shutil.which("nginx", path="/usr/sbin:/usr/bin")) is None:
            raise Failed("no nginx here: apt-get install nginx-light")
        folder, port = Path(self._open.enter_context(tempfile.TemporaryDirectory())), free_port()
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, answer=ANSWER))
        command = [nginx, "-q", "-c", str(folder / "nginx.conf")]
        subprocess.run(command, check=True)  # behind it, it listens
        self._open.callback(lambda: subprocess.run([*command, "-s", "stop"], check=True))
        return port
