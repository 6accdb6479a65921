"""One run of one system between an outside producer and consumer, all on this machine.

The outside is the same for all: its own two processes, one clock, the same corpus on the same schedule
(outside.py for ours, lines.py for peers on sockets, topics.py for peers between Kafka's). A run ends when all
expected changes have come, or its deadline has passed.

Keeps: whatever happens, no process outlives its run. Does not: choose what is run, or in which order
(suite.py).
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from systems.base import Cell, Failed, Form, Places, Running, System, start, stop

from harness.job import Outcome, _end, _environment, free_port, measured, noise
from harness.machine import machine, where

if TYPE_CHECKING:
    from harness.topics import Topics

REPORTED_WITHIN = 600.0
"""Seconds to look into all that came."""
LINGER = 0.3
"""Seconds behind the last expected change, for changes too many."""


def drive(
    system: System, cell: Cell, deadline: float, during: Callable[[Path], None] | None = None
) -> Outcome:
    """Run it. `during` is called in a thread with the run's folder, for deliberate faults (ours only)."""
    with (
        tempfile.TemporaryDirectory(prefix="flamestream-bench-", ignore_cleanup_errors=True) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        ends = stack.enter_context(_ends(system.form, cell, folder))
        running = start(system.command(cell, ends.places), folder)
        stack.callback(stop, running)
        if during:
            threading.Thread(target=during, args=(folder / "run",), daemon=True).start()
        ends.await_end(running, time.monotonic() + deadline)
        stop(running)
        sent, received = ends.reports()
        if not sent["sent"]:
            raise Failed(f"the system never asked for a document:\n{running.tail()}")
        outcome = measured(sent, received, cell.warm_up)
        outcome.extra["unfinished"] = not ends.finished
        return outcome


def record(system: System, cell: Cell, outcome: Outcome, before: dict[str, Any]) -> dict[str, Any]:
    """All there is to know about a run, for a line of JSON."""
    return {
        "system": system.name,
        "cell": asdict(cell),
        "result": outcome.row(),
        "latencies_ms": [round(latency, 2) for latency in outcome.latencies] if cell.rate else [],
        "versions": system.versions(),
        "settings": [asdict(setting) for setting in system.settings(cell)],
        "noise": before | {"load_after": round(os.getloadavg()[0], 2)},
        **where(),
    }


class _Ends:
    """The producer and the consumer of one run."""

    def __init__(self, form: str, cell: Cell, folder: Path) -> None:
        self._wire, self._folder = form == "wire", folder
        self._script = "outside" if self._wire else "lines"
        self.finished = True
        source, sink = free_port(), free_port()
        amount = ["--documents", str(cell.documents), "--rate", str(cell.rate), "--mean", str(cell.mean)]
        self._producer, said = self._outside("producer", source, "sent", *amount)
        self._consumer, _ = self._outside(
            "consumer", sink, "received", *([] if self._wire else ["--expect", said.split()[-1]])
        )
        self.places = Places(f"127.0.0.1:{source}", f"127.0.0.1:{sink}", folder)
        self._done = threading.Event()
        if not self._wire:
            listen(self._consumer, self._done)

    def _outside(
        self, role: str, port: int, report: str, *more: str
    ) -> tuple["subprocess.Popen[bytes]", str]:
        return outside(self._script, role, self._folder / f"{report}.json", "--port", str(port), *more)

    def await_end(self, running: Running, deadline: float) -> None:
        """Ours ends by itself once the producer has no more; a peer when all has come."""
        while not self._done.wait(0.05):
            code = running.process.poll()
            if code == 0 and self._wire:
                return
            if code is not None:
                raise Failed(f"the system ended with {code}:\n{running.tail()}")
            if time.monotonic() > deadline:
                self.finished = False
                return
        time.sleep(LINGER)

    def reports(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both saw."""
        for process in (self._producer, self._consumer):
            process.terminate()
            process.wait(REPORTED_WITHIN)
        return json.loads((self._folder / "sent.json").read_text()), json.loads(
            (self._folder / "received.json").read_text()
        )

    def end(self) -> None:
        hang_up(self._producer, self._consumer)


def outside(
    script: str, role: str, report: Path, *more: str, stdin: int | None = None
) -> tuple["subprocess.Popen[bytes]", str]:
    """One of the two processes outside, ready, and what it said then."""
    command = [sys.executable, "-m", f"harness.{script}", role, "--report", str(report), *more]
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, env=_environment())
    assert process.stdout is not None
    said = process.stdout.readline().decode()
    assert said.startswith("ready"), f"the {role} did not start"
    return process, said


def listen(consumer: "subprocess.Popen[bytes]", done: threading.Event) -> None:
    """Set `done` when the consumer says that it is."""
    assert consumer.stdout is not None
    pipe = consumer.stdout
    threading.Thread(target=lambda: done.set() if pipe.readline() == b"done\n" else None, daemon=True).start()


def hang_up(*processes: "subprocess.Popen[bytes]") -> None:
    """End them, and what is left of talking to them."""
    for process in processes:
        _end(process)
        for pipe in filter(None, (process.stdin, process.stdout)):
            pipe.close()


@contextlib.contextmanager
def _ends(form: Form, cell: Cell, folder: Path) -> "Iterator[_Ends | Topics]":
    if form == "kafka":
        from harness.topics import Topics  # needs a Kafka client, which nothing else here does

        ends: _Ends | Topics = Topics(cell, folder)
    else:
        ends = _Ends(form, cell, folder)
    try:
        yield ends
    finally:
        ends.end()


__all__ = ["drive", "machine", "noise", "record", "where"]
