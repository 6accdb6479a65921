"""Every row of the tables of docs/operations/performance.md, one after another on a machine that is otherwise
quiet.

    e2e/run measure [--only NAME,NAME] [--demo DEMO.yaml] [--out FILE]    # environment: as for e2e/run
    e2e/run measure --list                                                # the steps and their commands
    python -m e2e.measure --table REPORT.jsonl                             # the table of an earlier run

Each step is a process of its own with a time of its own: one that fails or hangs costs its own rows, and the
table says so. Rows are read from what the tests wrote to E2E_REPORT; the load beside each is the machine's
when the row was written.

Does not: judge correctness (the tests do; a row of a run that was not clean says so); make a cluster (e2e/run
does, without KUBECONFIG).
"""

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.support import faults
from e2e.support.kube import Kube
from e2e.support.stream import INTERVALS

ROOT = Path(__file__).resolve().parents[1]
Row = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """Some rows that are made together."""

    name: str
    words: tuple[str, ...]
    """After `python -m`."""
    within: float
    """Seconds."""

    def by_hand(self) -> str:
        """What a person types for these rows alone."""
        words = [f'"{word}"' if " " in word else word for word in self.words]
        return (
            f"python -m {' '.join(words)}" if self.words[0] != "pytest" else f"e2e/run {' '.join(words[1:])}"
        )


STEPS = (
    Step("start", ("e2e.support.start", "--times", "2"), 420),
    Step("start-two", ("e2e.support.start", "--times", "2", "--high-availability"), 300),
    Step("kills", ("pytest", "e2e/test_faults.py"), 900),
    Step("two", ("pytest", "e2e/test_high_availability.py"), 900),
    Step("planned", ("pytest", "e2e/test_planned.py", "-k", "one or drained"), 900),
    Step("scale", ("pytest", "e2e/test_scale.py"), 300),
    Step("figures", ("pytest", "e2e/test_figures.py"), 1000),
)


@dataclass(frozen=True)
class Figure:
    """A row of the table: which reports it is made from, and what is asked of them."""

    name: str
    asked: str
    pattern: str
    """Of a report's `what`, whole."""
    field: str
    limit: float | None = None
    """In the field's unit."""
    unit: str = "s"

    def line(self, rows: list[Row], step: str) -> str:
        """One line of the table."""
        found = [
            row for row in rows if re.fullmatch(self.pattern, row["what"]) and row.get(self.field) is not None
        ]
        if not found:
            return f"| {self.name} | {self.asked} | not measured | - | 0 | `{step}` |"
        values = [float(row[self.field]) / (1000 if self.field.endswith("gap_ms") else 1) for row in found]
        shown = (
            f"{values[0]:.3g} {self.unit}"
            if len(values) == 1
            else f"{statistics.median(values):.3g} {self.unit}, worst {max(values):.3g}"
        )
        if any(row.get("clean") is False for row in found):
            shown += ", NOT CLEAN"
        elif self.limit is not None and max(values) > self.limit:
            shown += " (not reached)"
        loads = sorted({round(row["load"]) for row in found})
        load = str(loads[0]) if len(loads) == 1 else f"{loads[0]}-{loads[-1]}"
        return f"| {self.name} | {self.asked} | {shown} | {load} | {len(values)} | `{step}` |"


def _latency(interval: str, which: str, limit: float) -> Figure:
    what = f"latency, epochs every {interval}"
    return Figure(f"{what}, at 50 documents/s, {which}", f"<= {limit} ms", what, which, limit, "ms")


FIGURES: tuple[tuple[str, Figure], ...] = (
    ("start", Figure("start, one application: first output", "<= 12 s", "start", "first_output_s", 12)),
    ("start", Figure("start, one application: Ready", "<= 10 s to the first worker", "start", "ready_s")),
    ("start", Figure("the same of Spark's own demo", "", "start", "demo_s")),
    ("start", Figure("first output beside the demo", "<= 0.4", "start", "of_demo", 0.4, "")),
    (
        "start-two",
        Figure("start, two applications: first output", "", "start, two applications", "first_output_s"),
    ),
    (
        "start-two",
        Figure("the same beside the demo", "<= 0.7", "start, two applications", "of_demo", 0.7, ""),
    ),
    (
        "kills",
        Figure(
            "gap: worker process killed", "<= 1 s each, 10 times", r"worker process killed.*", "gap_ms", 1
        ),
    ),
    ("kills", Figure("gap: its Python daemon killed", "<= 1 s", "Python daemon killed", "gap_ms", 1)),
    ("kills", Figure("gap: worker stopped for 6 s (a zombie)", "", "worker process stopped.*", "gap_ms")),
    ("kills", Figure("gap: executor pod deleted", "<= 3 s", r"executor pod deleted \(.*", "gap_ms", 3)),
    (
        "kills",
        Figure("gap: executor pod deleted by force", "<= 3 s", "executor pod deleted by force", "gap_ms", 3),
    ),
    (
        "kills",
        Figure(
            "gap: executor killed while the leader is dead",
            "<= lease + 3 = 7 s",
            "executor killed while.*",
            "gap_ms",
            7,
        ),
    ),
    ("kills", Figure("gap: operator leader killed", "0", "operator leader killed", "gap_ms")),
    ("kills", Figure("gap: ZooKeeper away for 30 s", "0", "ZooKeeper away.*", "gap_ms")),
    ("kills", Figure("gap: S3 away for 30 s", "0", "S3 away.*", "gap_ms")),
    (
        "kills",
        Figure(
            "gap: driver pod killed, one application",
            "<= 1.2x a cold start",
            r"driver pod .* \(one application\)",
            "gap_ms",
        ),
    ),
    (
        "two",
        Figure(
            "gap: driver pod killed, two applications",
            "<= 3 s",
            r"driver pod .* \(two applications\)",
            "gap_ms",
            3,
        ),
    ),
    ("two", Figure("gap: node crash", "<= 3 s", r"node crash .* leader beside", "gap_ms", 3)),
    ("two", Figure("gap: node cut", "<= 3 s", r"node cut .* leader beside", "gap_ms", 3)),
    (
        "two",
        Figure(
            "gap: node crash with the leader",
            "<= lease + 3 = 7 s",
            r"node crash .* lost with it",
            "gap_ms",
            7,
        ),
    ),
    (
        "two",
        Figure(
            "gap: node cut with the leader", "<= lease + 3 = 7 s", r"node cut .* lost with it", "gap_ms", 7
        ),
    ),
    (
        "two",
        Figure(
            "capacity back after a lost node", "<= NotReady + 10 s", "capacity back.*", "not_ready_plus_s", 10
        ),
    ),
    (
        "planned",
        Figure("gap: kubectl drain, one application", "<= 1 s", r"kubectl drain \(one.*", "gap_ms", 1),
    ),
    (
        "planned",
        Figure("gap: kubectl drain, two applications", "<= 1 s", r"kubectl drain \(two.*", "gap_ms", 1),
    ),
    ("planned", Figure("gap: changed settings of pods", "<= 1 s", r"changed settings.*", "gap_ms", 1)),
    ("planned", Figure("gap: another image", "<= 1 s", r"another image.*", "gap_ms", 1)),
    ("planned", Figure("gap: operator upgraded by helm", "0", r"operator upgraded.*", "gap_ms")),
    ("scale", Figure("gap: an autoscaler adds a worker", "<= 1 s", r"autoscaled from.*", "gap_ms", 1)),
    ("scale", Figure("gap: kubectl scale takes one away", "<= 1 s", r"scaled from.*", "gap_ms", 1)),
    *(
        ("figures", figure)
        for interval in INTERVALS
        for figure in (_latency(interval, "p50", 3), _latency(interval, "p99", 15))
    ),
    (
        "figures",
        Figure("API requests of an idle job, an hour", "<= 60", "idle job", "requests_per_hour", 60, ""),
    ),
    (
        "figures",
        Figure("operator memory, the larger replica, one job", "<= 150 MB", "idle job", "most_mb", 150, "MB"),
    ),
)


def table(rows: list[Row]) -> str:
    """All figures, measured or not."""
    head = ["| figure | asked | measured | load | n | step |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *(figure.line(rows, step) for step, figure in FIGURES)])


def read(report: Path) -> list[Row]:
    """With what follows from other figures."""
    rows = (
        [json.loads(line) for line in report.read_text().splitlines() if line.strip()]
        if report.exists()
        else []
    )
    demos = [row["demo_s"] for row in rows if row.get("demo_s")]
    for row in rows:
        if row.get("operator_mb"):
            row["most_mb"] = max(row["operator_mb"].values())
        if row.get("first_output_s") and demos:
            row["of_demo"] = row["first_output_s"] / row.get("demo_s", statistics.median(demos))
    return rows


def say(text: str, end: str = "\n") -> None:
    """To whoever waits."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def take(step: Step, environment: dict[str, str], more: list[str], log: Path) -> str:
    """Run it; how it ended. All of its processes end with it."""
    pytest = [
        "-p", "no:cacheprovider", "--override-ini", "faulthandler_timeout=1800", "--override-ini",
        "testpaths=e2e", "--override-ini", "pythonpath=. benchmarks tests", "-m", "", "-v",
    ]  # fmt: skip
    words = [*step.words, *(pytest if step.words[0] == "pytest" else more)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], env=environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code = process.wait(step.within)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as why:
            os.killpg(process.pid, signal.SIGINT)  # its `finally`s: nodes are healed, jobs removed
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(why, KeyboardInterrupt):
                raise
            return f"not over after {step.within:.0f} s"
    return "passed" if code == 0 else f"failed (code {code})"


def tidy() -> None:
    """What a step that was cut short has left: a broken or closed node, a job that takes the processor."""
    for node in Kube("").list("Node"):
        name, told = (
            node["metadata"]["name"],
            {each["type"]: each["status"] for each in node["status"]["conditions"]},
        )
        faults.hold(name, False)
        if told.get("Ready") != "True" and faults.can_break_nodes():
            for verb in ("start", "heal"):
                with contextlib.suppress(AssertionError):  # one of the two fits
                    faults.break_node(verb, name)
    for namespace in {job["metadata"]["namespace"] for job in Kube("").list("FlameStreamJob")}:
        Kube(namespace).unmake_namespace()


def main() -> None:
    # ignored, if a shell began us in the background: and by all our children
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help=f"of {', '.join(step.name for step in STEPS)}")
    parser.add_argument("--demo", type=Path, help="a Job `spark-demo` of plain PySpark, its image loaded")
    parser.add_argument("--out", type=Path, default=Path("e2e-figures.jsonl"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        say(table(read(options.table)))
    elif options.list:
        say("\n".join(f"{step.name:10} {step.by_hand()}" for step in STEPS))
    else:
        chosen = [step for step in STEPS if not options.only or step.name in options.only.split(",")]
        measure(chosen, options.demo, options.out.absolute())


def measure(steps: list[Step], demo: Path | None, out: Path) -> None:
    """One after another; the table at the end, whatever happened."""
    out.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "E2E_REPORT": str(out),
        "E2E_KILLS": os.environ.get("E2E_KILLS", "10"),
        "PYTHONPATH": str(ROOT),
    }
    log = out.with_suffix(".log")
    try:
        for step in steps:
            began = time.monotonic()
            say(f"{step.name}: ", end="")
            ended = take(step, environment, ["--demo", str(demo)] if demo else [], log)
            say(f"{ended}, {time.monotonic() - began:.0f} s")
            if ended != "passed":
                tidy()
    finally:
        say(f"\n{table(read(out))}\n\nrows: {out}, what the tests said: {log}")


if __name__ == "__main__":
    main()
