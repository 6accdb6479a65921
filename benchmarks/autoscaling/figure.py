"""Workers that come and go with the load: how long the output stands still for each, and how busy they are.

    python benchmarks autoscaling                 # a day in ten minutes
    python benchmarks autoscaling --table         # what is there so far

One worker begins, and up to four may take part. Documents come at a fixed rate, and their words (each takes 4 ms, in
which a worker waits) are few in the morning, many at noon, and few in the evening: from 0.3 to 2.6 workers' full
time; a minute of night follows. A gap is the longest time between two deliveries around a change of the number,
seen by the consumer; beside it stands the longest of the calm seconds before. How busy workers are is their
busy time over all their time, of all of the day, and of the time in which more than one takes part: at night a
single one has little to do. Beside it stands what a number of workers would reach that is always the least for
the work: one that leaves none busier than 85%, and one that leaves no room at all.
"""

import math
import random
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from figures.big_state import Watch
from figures.recovery import SETTLED, _gap
from harness.drive import where
from harness.job import Settings, noise, run
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.autoscaling import autoscaling_table

OUT: Final = CACHE / "autoscaling.jsonl"
RATE: Final = 25.0
MOST: Final = 4
LEAST_WORDS: Final = 3
MOST_WORDS: Final = 26
KEYS: Final = 500
LOOK: Final = 0.5
NIGHT: Final = 60.0
"""Seconds behind the day."""
WORD: Final = 0.004
"""Seconds that a word takes."""
CALM: Final = 5.0
"""Seconds before a change in which nothing else changes."""
BEGINS: Final = 10.0
"""Seconds that belong to the start."""


@dataclass(slots=True)
class Seen:
    """The job while it runs."""

    changes: list[tuple[float, int, int]] = field(default_factory=list)
    """When the number of workers was another, on the monotonic clock; from and to how many."""
    recoveries: list[dict[str, float]] = field(default_factory=list)
    """The milliseconds of the steps of each."""
    busy: list[tuple[int, float]] = field(default_factory=list)
    """How many workers there were, and how busy on average, at each look."""

    def look(self, watch: Watch, seconds: float) -> None:
        """For so long, twice a second."""
        end, began, before = time.monotonic() + seconds, time.monotonic(), 0
        while time.monotonic() < end:
            status = watch.status()
            workers = status["workers"]
            if status["phase"] == "running" and workers:
                if before and len(workers) != before:
                    self.changes.append((time.monotonic(), before, len(workers)))
                    self.recoveries.append(status["last_recovery"]["steps_ms"])
                before = len(workers)
                if time.monotonic() - began > BEGINS:
                    self.busy.append((before, statistics.mean(worker["busy"] for worker in workers)))
            time.sleep(LOOK)


def words(seconds: float) -> list[int]:
    """The number of words of each document of a day and the night behind it."""
    count = int(seconds * RATE)
    noons = [(1 - math.cos(2 * math.pi * min(1.0, number / count))) / 2 for number in range(count)]
    return [
        round(LEAST_WORDS + noon * (MOST_WORDS - LEAST_WORDS))
        for noon in [*noons, *[0.0] * int(NIGHT * RATE)]
    ]


def day(seconds: float) -> list[str]:
    """The documents."""
    rng = random.Random(2)
    chosen = [rng.sample(range(KEYS), many) for many in words(seconds)]
    return [f"{number}\t{' '.join(f'k{word}' for word in some)}" for number, some in enumerate(chosen)]


def at_best(seconds: float, busiest: float) -> float:
    """The share of their time for which workers are busy whose number is the least that leaves none busier than
    `busiest`, at any time."""
    works = [many * WORD * RATE for many in words(seconds)]
    return sum(works) / sum(max(1, math.ceil(work / busiest - 1e-9)) for work in works)


def _busy(looks: list[tuple[int, float]]) -> float:
    """Busy time over all time of so many workers at each look."""
    return round(sum(workers * busy for workers, busy in looks) / max(1, sum(n for n, _ in looks)), 3)


def measure(seconds: float) -> dict[str, Any]:
    """The row of one day."""
    before, seen = noise(), Seen()
    with tempfile.TemporaryDirectory(prefix="flamestream-lines-") as folder:
        file = Path(folder) / "lines"
        file.write_text("\n".join(documents := day(seconds)))
        settings = Settings(
            rate=RATE, functions="slow words", lines=file, documents=len(documents), workers=1, most_workers=MOST,
            warm_up=int(BEGINS * RATE), deadline=seconds + NIGHT + 300,
        )  # fmt: skip
        outcome = run(settings, lambda place: seen.look(Watch(place), seconds + NIGHT - 5))
    around = [_gap(outcome.deliveries, at - 3.0, at + SETTLED) for at, _, _ in seen.changes]
    row: dict[str, Any] = {"seconds": seconds, "changes": [[one, other] for _, one, other in seen.changes]}
    calm = [_gap(outcome.deliveries, at - 3.0 - CALM, at - 3.0) for at, _, _ in seen.changes]
    several = [(workers, busy) for workers, busy in seen.busy if workers > 1]
    row |= {
        "gaps_ms": [round(gap) for gap in around],
        "calm_ms": round(statistics.median(calm)) if calm else 0,
        "recoveries_ms": seen.recoveries,
        "busy": _busy(seen.busy),
        "busy_of_several": _busy(several),
        "busy_quartiles": [
            round(each, 2) for each in statistics.quantiles([each for _, each in several], n=4)
        ]
        if len(several) > 1
        else [],
        "best": [round(at_best(seconds, busiest), 2) for busiest in (0.85, 1.0)],
    }
    row |= {"p50_ms": round(outcome.percentile(0.5), 1), "p99_ms": round(outcome.percentile(0.99), 1)}
    row |= {"lost": outcome.lost, "doubled": outcome.doubled, "disorder": outcome.disorder}
    return row | before | where()


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the day")
    options = parser.parse_args()
    tell(options, map(measure, [options.seconds]), autoscaling_table)


if __name__ == "__main__":
    main()
