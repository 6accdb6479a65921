"""A run of a query between a producer and a consumer, and its latencies: at a share of what the system
carries, at a fixed rate, and through a failure.

A row's latency is from when its event was due (causes.py) to its receipt. The failure: of ours the worker is
killed with SIGKILL; of Flink, whose worker is the whole virtual machine, the connection of its source breaks,
and its tasks begin again in that machine.

Keeps: no process outlives its run. Does not: say which queries are run, or how often (figure.py).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from harness.drive import hang_up
from harness.job import _environment, free_port
from harness.results import percentile
from systems.base import Failed, Running, start, stop

from nexmark.causes import Cause, cause_of
from nexmark.events import Event
from nexmark.outside import PAUSE, RECOVERS, Past, Phase, Received
from nexmark.sides import Side

SHARE: Final = 0.8
STRIKE_AFTER: Final = 1.5
"""Seconds into the last phase."""
STARTED_WITHIN: Final = 90.0
AT_ONCE: Final = 0.25
"""Seconds."""
LEAST: Final = 5
"""Rows that a percentile needs."""


def phases(fixed: float) -> list[Phase]:
    """Of every run; the fixed rate in events a second."""
    return [
        Phase("full", 5.0, 500_000),
        Phase("share", 6.0, 700_000, share=SHARE),
        Phase("fixed", 6.0, 100_000, rate=fixed),
        Phase("failure", 5.0, 100_000, rate=fixed),
    ]


def paced(
    side: Side, query: str, events: Path, fixed: float,
    causes: Callable[[str, Sequence[Event]], Cause] = cause_of, todo: Sequence[Phase] = (),
) -> dict[str, Any]:  # fmt: skip
    """What a run says: the rate that the system took, and p50 and p99 in ms, or why there are none. `todo`:
    phases instead of all. Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="flamestream-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        pasts, received = _run(side, query, events, list(todo) or phases(fixed), folder)
    by_name = {past.name: past for past in pasts}
    found: dict[str, Any] = {"events_per_s": round(by_name["full"].rate)}
    if (rate := _given(received, pasts[1].start if len(pasts) > 1 else float("inf"))) is not None:
        found["rows_per_s"] = round(rate)
    if query == "q12":
        reason = "its windows end by the clock, at no event"
        return found | {name: {"reason": reason} for name in ("share", "fixed", "failure")}
    cause = causes(query, _events(events, pasts[-1].end))
    latencies = _latencies(cause, by_name, received)
    for name in ("share", "fixed"):
        if name in by_name:
            found[name] = _percentiles(by_name[name], latencies[name], found["events_per_s"])
    if "failure" in by_name:
        found["failure"] = _gap(by_name["failure"], latencies["failure"], found["events_per_s"])
    return found


Latencies = list[tuple[int, float]]
"""The number of each row's event, and the row's latency in ms."""


def _given(received: Received, until: float) -> float | None:
    """Rows a second of the first phase, by when they came: the middle half of them, for buffers fill at its
    beginning and empty at its end. None if they came at once, as those of one checkpoint do."""
    rows = [when for when, changes in received if when < until for _ in changes]
    begin, end = rows[len(rows) // 4 :][:1], rows[len(rows) * 3 // 4 :][:1]
    lasted = end[0] - begin[0] if rows else 0.0
    return len(rows) / 2 / lasted if lasted > AT_ONCE else None


def _percentiles(past: Past, latencies: Latencies, carried: float) -> dict[str, Any]:
    if reason := _why_not(past, latencies, carried):
        return {"rate": round(past.rate), "reason": reason}
    p50, p99 = (round(percentile((latency for _, latency in latencies), q), 2) for q in (50, 99))
    return {"rate": round(past.rate), "p50_ms": p50, "p99_ms": p99, "rows": len(latencies)}


def _gap(past: Past, latencies: Latencies, carried: float) -> dict[str, Any]:
    """The greatest latency of a row, if one of an event behind the failure came."""
    reason = _why_not(past, latencies, carried)
    if not reason and past.due(max(number for number, _ in latencies)) < past.start + STRIKE_AFTER + 0.5:
        reason = f"no row of an event behind the failure was there {PAUSE + RECOVERS:g} s after the end"
    return (
        {"reason": reason}
        if reason
        else {"gap_ms": round(max(latency for _, latency in latencies)), "rows": len(latencies)}
    )


def _why_not(past: Past, latencies: Latencies, carried: float) -> str:
    if past.rate > carried:
        return f"it carries {carried:,.0f} events a second, fewer than were due"
    return f"only {len(latencies)} rows say their event" if len(latencies) < LEAST else ""


def _latencies(cause: Cause, pasts: dict[str, Past], received: Received) -> dict[str, Latencies]:
    """By phase: of each row that says its event."""
    found: dict[str, Latencies] = {name: [] for name in pasts}
    timed = [past for past in pasts.values() if past.name != "full"]
    for when, changes in received:
        for kind, row in changes:
            number = cause(row) if when >= timed[0].start and kind in ("+I", "+U") else None
            for past in timed:
                if number is not None and past.first <= number < past.end:
                    found[past.name].append((number, (when - past.due(number)) * 1e3))
    return found


def _events(file: Path, count: int) -> list[Event]:
    decoder = msgspec.json.Decoder(Event)
    with file.open("rb") as lines:
        return [decoder.decode(line) for line, _ in zip(lines, range(count), strict=False)]


def _run(
    side: Side, query: str, events: Path, todo: list[Phase], folder: Path
) -> tuple[list[Past], Received]:
    source, sink = free_port(), free_port()
    breaks = ["--hang-up", str(STRIKE_AFTER)] if side.form == "lines" else []
    given = ["--events", str(events), "--phases", json.dumps([asdict(phase) for phase in todo]), *breaks]
    with contextlib.ExitStack() as stack:
        consumer = stack.enter_context(outside("consumer", side.form, sink, folder / "received"))
        producer = stack.enter_context(outside("producer", side.form, source, folder / "sent", *given))
        running = start(side.between(query, source, sink, folder), folder)
        stack.callback(stop, running)
        strikes = side.form == "wire" and todo[-1].name == "failure"
        seconds = STARTED_WITHIN + sum(phase.seconds + PAUSE for phase in todo)
        await_end(producer, running, seconds, partial(_strike, folder / "run") if strikes else _nothing)
        stop(running)
        for process in (producer, consumer):
            process.terminate()
            process.wait(300)
    pasts = [Past(**past) for past in json.loads((folder / "sent").read_text())]
    return pasts, msgspec.msgpack.decode((folder / "received").read_bytes(), type=Received)


def await_end(
    producer: "subprocess.Popen[bytes]", running: Running, seconds: float, begins: Callable[[str], None]
) -> None:
    """Until all phases are over; `begins` is told the name of each when it does. Raises Failed, also if that takes
    longer."""
    assert producer.stdout is not None
    deadline = time.monotonic() + seconds
    watch = threading.Thread(target=_break_off, args=(producer, running, deadline), daemon=True)
    watch.start()
    for line in iter(producer.stdout.readline, b"done\n"):
        if not line:
            raise Failed(f"the system ended or came to no end:\n{running.tail()}")
        begins(line.decode().removeprefix("phase ").strip())


def _nothing(_phase: str) -> None:
    return


def _strike(run_folder: Path, phase: str) -> None:
    """In the phase of the failure, kill the job's worker."""
    if phase == "failure":
        time.sleep(STRIKE_AFTER)
        os.kill(json.loads(next((run_folder / "workers").glob("*.json")).read_text())["pid"], signal.SIGKILL)


def _break_off(producer: "subprocess.Popen[bytes]", running: Running, deadline: float) -> None:
    """End the producer when the system has ended, or too much time has passed: that is how who reads its
    words notices."""
    while producer.poll() is None:
        if running.process.poll() is not None or time.monotonic() > deadline:
            producer.terminate()
            return
        time.sleep(0.2)


@contextlib.contextmanager
def outside(
    role: str, form: str, port: int | str, report: Path, *more: str, module: str = "nexmark.outside"
) -> "Iterator[subprocess.Popen[bytes]]":
    """A producer or a consumer while the block runs. Raises Failed if it does not start."""
    command = [
        sys.executable,
        "-m",
        module,
        role,
        "--form",
        form,
        "--port",
        str(port),
        "--report",
        str(report),
        *more,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment())
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise Failed(f"the {role} did not start")
        yield process
    finally:
        hang_up(process)
