"""Functions that toss coins, in real workers that are killed: under `strong-productions` each record has one
outcome, whole, and all that follows from it agrees."""

from collections import defaultdict
from pathlib import Path

import pytest

from support.runs.cli_job import CliJob, explained
from support.runs.kills import Killer, Role

RECORDS = 5_000
APPLICATION = """
import random
import flamestream as fs

def tossed(number: int) -> list[tuple[int, float, int, int]]:
    toss, count = random.random(), random.randrange(4)
    return [(number, toss, place, count) for place in range(count)]

def kept(result) -> bool:
    return random.random() < 0.9 or result[2] == 0

def with_chance(pair) -> tuple[int, int, float]:
    return (*pair, random.random())

graph = fs.Graph("tosses")
numbers = graph.source("numbers", int)
numbers.sink("plain", key=lambda number: number % 16)
tosses = numbers.flat_map(tossed).filter(kept)
tosses.sink("tosses", key=lambda toss: toss[0] % 16)
sums = tosses.reduce(
    key=lambda toss: toss[0] % 7, initial=int, combine=lambda count, toss: count + 1,
    emit=lambda count, toss: (toss[0] % 7, count),
)
behind = sums.map(with_chance)
behind.sink("counts", key=lambda count: count[0])
behind.sink("copies", key=lambda count: count[1])
"""
SPEC = {
    "sources": {"numbers": {"files": {"path": "numbers.jsonl", "format": "jsonl"}}},
    "sinks": {
        name: {"files": {"path": name, "fsync": False}} for name in ("plain", "tosses", "counts", "copies")
    },
    "checkpoint": {"interval": "200ms", "store": "store"},
    "journal": {"folder": "journal", "keep": True},
}
KILLS = [(0.15, Role.WORKER), (0.4, Role.COORDINATOR), (0.7, Role.WORKER)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tosses_job.py").write_text(APPLICATION)
    (tmp_path / "numbers.jsonl").write_text("".join(f"{number}\n" for number in range(RECORDS)))
    return tmp_path


def test_each_record_has_one_outcome_and_all_that_follows_agrees(folder: Path) -> None:
    job = CliJob(folder, folder / "tosses_job.py", {**SPEC, "guarantee": "strong-productions"}, spark=False)
    killer = Killer(job, KILLS, total=RECORDS * 120, seed=9)
    with explained(job, killer):
        job.start()
        killer.run()
        assert job.end()[1]["outcome"] == "completed"
        tosses, counts = job.delivered("tosses"), job.delivered("counts")
        outcomes = defaultdict[int, list[tuple[float, int, int]]](list)
        for number, *toss in tosses:
            outcomes[number].append(tuple(toss))
        for number, outcome in outcomes.items():
            assert len({(toss, count) for toss, _, count in outcome}) == 1, f"{number} was tossed twice"
            places = [place for _, place, _ in outcome]
            assert places[0] == 0 and places == sorted(set(places)), f"{number} has {outcome}"
        assert len(outcomes) > 0.6 * RECORDS
        assert [*outcomes] == sorted(outcomes), "results come in the order of records"
        by_key = defaultdict[int, list[int]](list)
        for key, count, _ in counts:
            by_key[key].append(count)
        assert all(found == [*range(1, len(found) + 1)] for found in by_key.values()), (
            "a count is lost or doubled"
        )
        assert len(counts) == len(tosses), "what was delivered is what was counted"
        assert sorted(counts) == sorted(job.delivered("copies")), "two sinks of one outcome"
        assert job.audit()["clean"]
