"""What calls with ids are worth: one run of an example job, whose orders are each priced by a service, while
workers, the processes that make their calls, the service, the coordinator, and the launcher with all of these
are killed in turns.

    python benchmarks call_kills                                # 50,000 calls, 100 kills: some minutes
    python benchmarks call_kills --orders 4000 --kills 12       # a short look

The job is examples/after_lambda/retries.py. Its service is the one beside it: it answers late, twice, wrong
and never. A kill waits for a part of the requests, and for the death that it leads to; the next may fall into
the recovery. Judged is what came out, and what the service has written down, against the orders, by plain
loops; and by `flamestream audit`. The command fails if anything was lost or doubled.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.drive import noise, where
from harness.report import CACHE
from harness.rows import keep

from support.calls.asked_service import AskedService, asked_service
from support.runs.after_lambda import ExampleJob, judged, orders
from support.runs.cli_job import explained
from support.runs.kills import Killer, Role

OUT: Final = CACHE / "call_kills.jsonl"
SERVICE: Final = "service"
TURNS: Final = (
    Role.WORKER, Role.CALLER, SERVICE, Role.COORDINATOR, Role.WORKER, Role.CALLER, SERVICE, Role.WORKER,
    Role.CALLER, Role.LAUNCHER,
)  # fmt: skip
END: Final = 1800.0
"""Seconds that the job may take behind the last kill."""
Plan = list[tuple[float, Role | str]]


def plan_of(kills: int, seed: int) -> Plan:
    """Who dies at which part of the requests: in turns, at moments that are drawn."""
    rng = Random(seed)
    parts = sorted(rng.uniform(0.01, 0.98) for _ in range(kills))
    return list(zip(parts, islice(cycle(TURNS), kills), strict=True))


def run(folder: Path, service: AskedService, count: int, plan: Plan, rate: float) -> dict[str, Any]:
    """The job through its kills, and what is to be said of it."""
    rows = orders(count)
    job = ExampleJob(folder, "retries", service, rows, rate)
    killer = Killer(job, [], total=count, seed=len(plan))
    began = time.monotonic()
    try:
        with explained(job, killer):
            job.start()
            killer.run_with(plan, service.restart)
            ended = job.end(END)[1]
        lasted = time.monotonic() - began
        audit, asked = job.audit(), service.log()
        verdict = judged(rows, job.delivered("priced"), asked)
        return {
            "orders": count, "outcome": ended["outcome"], "seconds": round(lasted, 1),
            "kills": dict(Counter(map(str, (victim for _, victim in plan)))),
            "requests": asked.asked.total(), "faults": dict(asked.faults),
            "error_items": len(job.delivered("dead")), "audit_clean": audit["clean"],
            "clean": verdict.clean and audit["clean"], **asdict(verdict),
        }  # fmt: skip
    finally:
        job.close()


def sentence(row: dict[str, Any]) -> str:
    """The figure."""
    kills = ", ".join(f"{victim} {times}" for victim, times in sorted(row["kills"].items()))
    return (
        f"{sum(row['kills'].values())} kills ({kills}) in one run of {row['orders']:,} calls with ids, "
        f"{row['requests']:,} requests, {row['seconds']:.0f} s: "
        f"results: {row['lost']} lost, {row['doubled']} doubled, {row['wrong']} wrong; "
        f"effects: {row['effects_lost']} lost, {row['effects_doubled']} doubled, "
        f"{row['changed']} ids of two things; audit {'clean' if row['audit_clean'] else 'NOT CLEAN'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rate", type=float, default=200.0, help="calls a second of each of two workers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, which are added")
    options = parser.parse_args()
    before = noise()
    with tempfile.TemporaryDirectory(prefix="call-kills-") as folder, asked_service(Path(folder)) as service:
        plan = plan_of(options.kills, options.seed)
        row = run(Path(folder), service, options.orders, plan, options.rate)
    keep(options.out, row | {"seed": options.seed, "noise": before} | where())
    print(sentence(row))
    sys.exit(0 if row["clean"] else 1)


if __name__ == "__main__":
    main()
