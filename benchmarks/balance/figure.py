"""How full the fullest worker is before and after slots have moved by what they cost.

    python benchmarks balance                           # some seconds
    python benchmarks balance --table                   # what is there so far

Records of 100,000 keys, drawn by Zipf 1.0, each as dear as the next, for the 256 slots of eight simulated
workers. These report what their slots cost, as workers do, once a minute for five minutes; then the
coordinator's own decision is taken, and judged by records that were drawn behind it. The first layout is the one
that a job begins with.
"""

import random
import statistics
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from harness.drive import where
from harness.job import noise
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.balance import balance_table

from flamestream.core.coordinator.assignment import next_layout
from flamestream.core.coordinator.balance import Balance, Loads, fullness
from flamestream.core.protocol.messages import MOST_SLOTS, Busy
from flamestream.model import payload as codec
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.slot import slot_of

OUT: Final = CACHE / "balance.jsonl"
WORKERS: Final = [WorkerId(f"w{number}") for number in range(8)]
SLOTS: Final = 256
KEYS: Final = 100_000
RECORDS: Final = 200_000
"""Of a minute."""
MINUTE: Final = 60_000_000
BUSY: Final = 0.5
"""The share of the time that the workers are, on average."""
ROUNDS: Final = 5


def drawn(rng: random.Random, slots: Sequence[int], whole: Sequence[float]) -> list[int]:
    """What each slot costs in a minute, in microseconds."""
    cost = round(BUSY * MINUTE * len(WORKERS) / RECORDS)
    found = [0] * SLOTS
    for slot in rng.choices(slots, cum_weights=whole, k=RECORDS):
        found[slot] += cost
    return found


def told(layout: Layout, worker: WorkerId, costs: Sequence[int]) -> Busy:
    """What a worker reports of them."""
    mine = sorted(((slot, costs[slot]) for slot in layout.slots_of(worker)), key=lambda each: -each[1])
    busy, rest = sum(cost for _, cost in mine), sum(cost for _, cost in mine[MOST_SLOTS:])
    return Busy(NO_FENCE, MINUTE, busy, mine[:MOST_SLOTS], rest)


def moved(seed: int) -> tuple[float, float, int]:
    """The fullest over the mean before and after, and how many slots have moved."""
    rng = random.Random(seed)
    slots = [slot_of(codec.encode(f"{seed}-{key}"), SLOTS) for key in range(KEYS)]
    whole = list(accumulate(1 / rank for rank in range(1, KEYS + 1)))
    layout, balance = next_layout(None, WORKERS, SLOTS, 0), Balance(ROUNDS * MINUTE)
    for _ in range(ROUNDS):
        costs = drawn(rng, slots, whole)
        for worker in WORKERS:
            balance.hear(worker, told(layout, worker, costs), layout)
    after = balance.target(layout) or layout.owners
    later = Loads(drawn(rng, slots, whole), dict.fromkeys(WORKERS, 0))
    changed = sum(one != other for one, other in zip(layout.owners, after, strict=True))
    return fullness(layout.owners, later), fullness(after, later), changed


def measure(times: int) -> dict[str, Any]:
    """The row: medians, and the least and the most."""
    before = noise()
    found = list(zip(*(moved(seed) for seed in range(times)), strict=True))
    row: dict[str, Any] = {"workers": len(WORKERS), "keys": KEYS, "n": times}
    for name, values in zip(("before", "after", "moved"), found, strict=True):
        row[name] = [round(each, 3) for each in (statistics.median(values), min(values), max(values))]
    return row | {"noise": before} | where()


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--times", type=int, default=21, help="jobs, each with keys of its own")
    options = parser.parse_args()
    tell(options, (measure(each) for each in [options.times]), balance_table)


if __name__ == "__main__":
    main()
