"""A campaign: a great many seeds of every kind and guarantee, as many hours as it takes, resumed where it was
interrupted.

    make test-long                                                 # 100,000 seeds
    make test-long CAMPAIGN_ARGS="--seeds 1000000 --first 500000"

What is done is kept in `.simulations/`, under a digest of the code that was simulated: a changed engine
begins anew. `report.md` there says which seeds were run, which faults struck how often, and what was found.
One seed in twenty is run with native parts too, and must do the same.

Keeps: a chunk counts only when all of its seeds have been run. Does not: stop at a finding.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from flamestream.core.dataflow.native import native
from flamestream.model.kernel import kernel
from flamestream.simulation.faults import Fault
from flamestream.simulation.kinds import KINDS, named
from flamestream.simulation.kinds import run as simulated
from flamestream.simulation.simulator import Result
from flamestream.testing import SimulationFailure

ROOT = Path(__file__).parents[2]
SIMULATED = (
    "model",
    "core",
    "simulation",
    "reference.py",
    "store/segment.py",
    "store/snapshots.py",
)
OTHER_ROWS = ("event-time", "windows")
"""Kinds whose states the kernel keeps in another form: its rows are of other lengths, and so no trace is the same."""
CHUNK = 50
"""Seeds that a process takes at once."""
WEIGHTS = {("any", "exactly-once"): 5, ("any", "exactly-once-2pc"): 2}
"""How often kinds and guarantees come in a round, where it is not once."""
TURNS = tuple(
    turn
    for kind, its in KINDS.items()
    for guarantee in its.guarantees
    for turn in [(kind, guarantee)] * WEIGHTS.get((kind, guarantee), 1)
)
"""The kind and the guarantee of each chunk, in turn."""
NATIVE_EVERY = 20
SEEDS, FIRST = 100_000, 10_000


@dataclass
class Chunk:
    """Some seeds in a row, and what they have shown."""

    kind: str
    guarantee: str
    first: int
    count: int
    seconds: float = 0.0
    native: int = 0
    """Seeds of it that were run with native parts too."""
    coverage: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> tuple[str, str, int]:
        return self.kind, self.guarantee, self.first


def chunks(first: int, seeds: int) -> Iterator[Chunk]:
    """All that a campaign consists of."""
    for number, start in enumerate(range(first, first + seeds, CHUNK)):
        yield Chunk(*TURNS[number % len(TURNS)], start, min(CHUNK, first + seeds - start))


def run(chunk: Chunk) -> Chunk:
    """Simulate its seeds."""
    began, coverage, outcomes = time.monotonic(), Counter[str](), Counter[str]()
    for seed in range(chunk.first, chunk.first + chunk.count):
        try:
            result = simulated(chunk.kind, seed, chunk.guarantee)
            if kernel is not None and seed % NATIVE_EVERY == 0:
                chunk.native += 1
                other = simulated(chunk.kind, seed, chunk.guarantee, parts=native(kernel))
                if _seen(chunk, other) != _seen(chunk, result):
                    raise SimulationFailure(
                        seed, "10 determinism", 0, "native parts do something else", chunk.guarantee,
                        kind=named(chunk.kind, chunk.guarantee),
                    )  # fmt: skip
        except SimulationFailure as failure:
            chunk.findings.append({"seed": seed, "invariant": failure.invariant, "message": str(failure)})
        else:
            coverage.update(result.coverage)
            outcomes[result.outcome] += 1
    chunk.coverage, chunk.outcomes, chunk.seconds = (
        dict(coverage),
        dict(outcomes),
        round(time.monotonic() - began, 2),
    )
    return chunk


def _seen(chunk: Chunk, result: Result) -> object:
    return result.delivered if chunk.kind in OTHER_ROWS else result.trace_hash


class Campaign:
    """What is done of one, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "chunks.jsonl"
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        whole = [line for line in lines if line.endswith("\n")]  # the last one may be torn
        self._log.write_text("".join(whole))
        self._done = {chunk.name: chunk for chunk in (Chunk(**json.loads(line)) for line in whole)}

    @property
    def done(self) -> list[Chunk]:
        """What has been run."""
        return list(self._done.values())

    def left(self, first: int, seeds: int) -> list[Chunk]:
        """Chunks that are still to be run."""
        done = self._done
        return [
            chunk
            for chunk in chunks(first, seeds)
            if chunk.name not in done or done[chunk.name].count < chunk.count
        ]

    def add(self, chunk: Chunk) -> None:
        """It has been run; it takes the place of a shorter one that began there."""
        self._done[chunk.name] = chunk
        with self._log.open("a") as log:
            log.write(json.dumps(asdict(chunk)) + "\n")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Of all chunks."""
        return [finding for chunk in self.done for finding in chunk.findings]

    def report(self) -> str:
        """For people, in Markdown."""
        lines = [
            "# Simulated",
            "",
            "| kind | guarantee | seeds | from | to | with native parts too | outcomes | a second and process |",
        ]
        lines.append("|---|---|---|---|---|---|---|---|")
        lines += [
            self._row(*turn)
            for turn in dict.fromkeys(TURNS)
            if any((chunk.kind, chunk.guarantee) == turn for chunk in self.done)
        ]
        coverage: Counter[str] = Counter()
        for chunk in self.done:
            coverage.update(chunk.coverage)
        lines += ["", "| fault | times |", "|---|---|"]
        lines += [f"| {fault.value} | {coverage[f'fault.{fault.name}']:,} |" for fault in Fault]
        lines += ["", f"Findings: {len(self.findings) or 'none'}.", ""]
        lines += [f"- {finding['message']}" for finding in self.findings]
        return "\n".join(lines) + "\n"

    def _row(self, kind: str, guarantee: str) -> str:
        its = [chunk for chunk in self.done if (chunk.kind, chunk.guarantee) == (kind, guarantee)]
        seeds, seconds = sum(chunk.count for chunk in its), sum(chunk.seconds for chunk in its)
        outcomes: Counter[str] = Counter()
        for chunk in its:
            outcomes.update(chunk.outcomes)
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
        first, last = min(chunk.first for chunk in its), max(chunk.first + chunk.count for chunk in its)
        also = sum(chunk.native for chunk in its)
        return (
            f"| {kind} | {guarantee} | {seeds:,} | {first} | {last} | {also:,} | {told} | "
            f"{seeds / max(seconds, 1e-9):.1f} |"
        )


def identity() -> str:
    """Of the code that is simulated."""
    found = [ROOT / "runtime" / "flamestream" / name for name in SIMULATED]
    files = sorted(file for path in found for file in ([path] if path.is_file() else path.rglob("*.py")))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def carry_on(campaign: Campaign, first: int, seeds: int, processes: int) -> None:
    """Run what is left; the report is written again and again."""
    left = campaign.left(first, seeds)
    sys.stdout.write(
        f"{sum(chunk.count for chunk in left):,} of {seeds:,} seeds are left; {campaign.folder}/report.md\n"
    )
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for number, future in enumerate(as_completed([pool.submit(run, chunk) for chunk in left]), 1):
            campaign.add(future.result())
            if number % 20 == 0 or number == len(left):
                (campaign.folder / "report.md").write_text(campaign.report())
                sys.stdout.write(f"{number * CHUNK:,} seeds, {len(campaign.findings)} findings\n")
                sys.stdout.flush()


def main() -> int:
    """Exit code 3 if something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / ".simulations")
    chosen = parser.parse_args()
    campaign = Campaign(chosen.folder / identity())
    carry_on(campaign, chosen.first, chosen.seeds, chosen.processes)
    sys.stdout.write(campaign.report())
    return 3 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
