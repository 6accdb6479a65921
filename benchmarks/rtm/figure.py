"""Spark's three real-time jobs between Kafka topics: Spark in real-time mode and in micro-batches, and ours,
exactly once.

    python benchmarks rtm                                              # all of it: some 30 minutes
    python benchmarks rtm --jobs count --systems "spark real-time,flamestream" --seconds 20 --warm-up 10

    dedup     each id once; one record in five is an older one again
    window    a count by user and minute of event time, told for each record (Spark: update mode)
    count     a count by user (Spark: transformWithState)

1,000 records a second, from when each was due to when its result is in the sink's topic, by the broker's
clock, and to when a consumer has it. By turns on one broker: its own, or that of --brokers. Results are
compared with a plain loop over the records. A line of results is written as soon as it is there.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from figures.kafka import _broker
from harness.drive import noise, where
from harness.report import CACHE
from harness.rows import keep, set_aside
from harness.suite import ready
from harness.tables.rtm import rtm_table
from systems.base import Failed

from rtm.records import JOBS
from rtm.run import Load, run
from rtm.sides import SIDES, Side

OUT: Final = CACHE / "rtm.jsonl"


def measured(side: Side, job: str, brokers: str, load: Load) -> dict[str, Any]:
    """A line: what came out, or why nothing did."""
    before = noise()
    try:
        found = run(side, job, brokers, load)
    except Failed as reason:
        print(f"{job}, {side.name}: no result: {reason}", file=sys.stderr)
        found = {"reason": str(reason).splitlines()[0]}
    return {
        "measure": job, "system": side.name, "guarantee": side.guarantee, "result": found,
        "cell": {"rate": load.rate, "warm_up": load.warm_up, "seconds": load.seconds},
        "versions": side.versions(),
        "settings": [{"name": each.name, "value": each.value, "reason": each.reason} for each in side.settings()],
        "noise": before | {"load_after": round(os.getloadavg()[0], 2)}, **where(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--systems", default=",".join(SIDES))
    parser.add_argument("--rate", type=float, default=1000.0, help="records a second")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds that do not count")
    parser.add_argument("--seconds", type=float, default=60.0, help="that are measured")
    parser.add_argument("--brokers", default="", help="of a Kafka that is there")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, which are added")
    parser.add_argument("--again", action="store_true", help="set an older file aside")
    options = parser.parse_args()
    if options.again:
        set_aside(options.out)
    load, sides, rows = (
        Load(options.rate, options.warm_up, options.seconds),
        ready(options.systems.split(","), SIDES),
        [],
    )
    with _broker(options.brokers) as brokers:
        for job in options.jobs.split(","):
            for side in sides:
                rows.append(measured(side, job, brokers, load))
                keep(options.out, rows[-1])
                result, noise_of = rows[-1]["result"], rows[-1]["noise"]
                print(f"{job}, {side.name}: {json.dumps(result)}  load={noise_of['load']}", flush=True)
    print(rtm_table(rows))


if __name__ == "__main__":
    main()
