"""What each attack on a live job costs others: `make attacks`, or with ATTACK_ARGS="--only zookeeper
--seconds 2".

Two jobs under one operator's coordinators; one is attacked. Of the other's client ("neighbour") and of the
attacked job's own honest client the latency from post to event is taken in a calm window and in one of
attack, of equal length. An attack is clean if every number that was answered came exactly once and in order,
in both jobs, the neighbour never recovered, and both run afterwards. Where an attack should end the attacked
job, only the neighbour counts, and both begin anew.

Rows go to benchmarks/results/attacks.jsonl, in place of those of the same name; `python benchmarks report
--docs` makes the table of docs/explanation/threats.md from them. Ends with 1 if an attack was not clean.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.drive import machine
from harness.results import percentile

from attacks.attack import Attack
from attacks.catalogue import ATTACKS
from attacks.site import encoded
from attacks.stage import Report, Stage, ours
from support.eventually import eventually

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "attacks.jsonl"
LATE = 20.0
"""Seconds that an attacker may take beyond its time before it is ended."""
CALM_WITHIN = 30.0
"""Seconds for the jobs to catch up behind the attack before."""
SETTLE = 1.0
"""Seconds behind an attack that still belong to it."""
A_STAGE = 12
"""Attacks on one pair of jobs, so that what an attack leaves behind does not pile up for those that
follow."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """One attack, on the monotonic clock, and what was seen of the jobs."""

    attack: Attack
    begun: float
    attacked: float
    over: float
    times: int
    """How often it struck."""
    code: int
    """The attacker's exit code."""
    recoveries: tuple[int, int]
    """Of the attacked job and of its neighbour."""
    runs: tuple[bool, bool]


def carried_out(stage: Stage, attack: Attack, seconds: float) -> Done:
    """A calm while, then the attack."""
    jobs = (stage.attacked, stage.neighbour)
    with ours(
        "attacker", attack.name, seconds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as attacker:
        assert attacker.stdout is not None
        attacker.stdout.readline()  # until it has imported all that it needs
        with contextlib.suppress(AssertionError):  # then the calm figures say so
            eventually(stage.calm, "both jobs have caught up", within=CALM_WITHIN)
        before, begun = [stage.attempt(job) for job in jobs], time.monotonic()
        time.sleep(seconds)
        attacked = time.monotonic()
        try:
            out, _ = attacker.communicate((encoded(stage.site) + "\n").encode(), timeout=seconds + LATE)
        except subprocess.TimeoutExpired:
            attacker.kill()
            out, _ = attacker.communicate()
    time.sleep(SETTLE)
    over = time.monotonic()
    one, other = (stage.attempt(job) - attempt for job, attempt in zip(jobs, before, strict=True))
    runs = (stage.runs(jobs[0]), stage.runs(jobs[1]))
    return Done(attack, begun, attacked, over, int(out or 0), attacker.returncode, (one, other), runs)


def row(done: Done, neighbour: Report, client: Report) -> Row:
    """Of the results file."""
    found = troubles(done, neighbour, client)
    return {
        "attack": done.attack.name, "who": done.attack.who, "does": done.attack.does, "times": done.times,
        "seconds": round(done.over - done.attacked - SETTLE, 1), "neighbour": cost(neighbour, done),
        "client": None if done.attack.ends else cost(client, done), "recoveries": done.recoveries[0],
        "clean": not found, "troubles": found, "machine": machine(), "load": round(os.getloadavg()[0], 2),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def troubles(done: Done, neighbour: Report, client: Report) -> list[str]:
    """What went wrong that should not, in words."""
    its = {"neighbour": neighbour} if done.attack.ends else {"neighbour": neighbour, "attacked": client}
    found = ["the attacker broke down, or found a door open"] if done.code > 0 else []
    found += ["the attacker did not end in time: the machine is too busy"] if done.code < 0 else []
    for name, report in its.items():
        counts = {
            "lost": _lost(report, done),
            "doubled": report.doubled,
            "out of order": report.disorder,
            "not once in the output": report.wrong,
        }
        found += [f"{name}: {count} {what}" for what, count in counts.items() if count]
    found += ["the neighbour recovered"] if done.recoveries[1] else []
    runs = dict(zip(("attacked", "neighbour"), done.runs, strict=True))
    return found + [f"{name} does not run" for name in its if not runs[name]]


def cost(report: Report, done: Done) -> dict[str, list[float]]:
    """p50 and p99 in ms, calm and under attack."""
    windows = {"before": (done.begun, done.attacked), "during": (done.attacked, done.over - SETTLE)}
    found = {}
    for name, (start, end) in windows.items():
        values = [ms for due, ms in report.points if start <= due < end and ms is not None]
        found[name] = [percentile(values, q) for q in (50, 99)] if values else []
    return found


def _lost(report: Report, done: Done) -> int:
    return sum(ms is None for due, ms in report.points if done.begun <= due < done.over)


def rows_of(attacks: list[Attack], seconds: float, folder: Path) -> list[Row]:
    """On one stage, until an attack ends the attacked job."""
    done: list[Done] = []
    with Stage(folder) as stage:
        for attack in attacks:
            done.append(carried_out(stage, attack, seconds))
            print(
                f"{attack.name}: {done[-1].times} times, recoveries {done[-1].recoveries}",
                file=sys.stderr,
                flush=True,
            )
            if not all(done[-1].runs):
                break
    neighbour, client = stage.neighbour.report(), stage.attacked.report()
    return [row(each, neighbour, client) for each in done]


def staged(attacks: Iterable[Attack]) -> Iterator[list[Attack]]:
    """Those that end the job come last on their stage."""
    batch: list[Attack] = []
    for attack in attacks:
        batch.append(attack)
        if attack.ends or len(batch) == A_STAGE:
            yield batch
            batch = []
    if batch:
        yield batch


def measured(attacks: list[Attack], seconds: float) -> list[Row]:
    """All of them; what is left of a stage that ended before its time goes on another."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="flamestream-attacks-") as name:
        for number, batch in enumerate(staged(attacks)):
            left = batch
            while left:
                rows += (fresh := rows_of(left, seconds, Path(name) / f"{number}-{len(left)}"))
                left = left[len(fresh) :]
    return rows


def kept(file: Path, fresh: list[Row]) -> None:
    """Rows in the order of the catalogue; fresh ones in place of older ones."""
    old = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    found = {each["attack"]: each for each in [*old, *fresh]}
    file.write_text("".join(json.dumps(found[name]) + "\n" for name in ATTACKS if name in found))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], help="attacks whose name has this text; several may be given"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of calm, and of attack")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    chosen = [
        attack
        for name, attack in ATTACKS.items()
        if not options.only or any(text in name for text in options.only)
    ]
    rows = measured(chosen, options.seconds)
    kept(options.results, rows)
    for each in rows:
        print(
            json.dumps(
                {
                    name: each[name]
                    for name in ("attack", "times", "neighbour", "client", "recoveries", "troubles")
                }
            )
        )
    return int(not rows or not all(each["clean"] for each in rows))


if __name__ == "__main__":
    sys.exit(main())
