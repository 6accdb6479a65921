"""A mutation run: small breaks of the cores, drawn by a seed, and how many of them the tests notice.

    make mutants                                                      # 100 of runtime's and the operator's
                                                                      core
    make mutants MUTANT_ARGS="--count 20 --seed 7 --only recovery"    # of modules with that word in their
                                                                      path

A mutant is tried in a copy of the checkout: first the module's own tests, then all of that core, then 150
simulated seeds (of the operator: its chaos). Who goes red first has caught it; so has who does not end.
Survivors are listed: each lacks a test, or changes nothing that anybody could see. The score, with the
survivors, is kept in tests/mutation/score.json, and docs/explanation/reliability.md has it.

Does not: touch the checkout itself but for the score.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mutation.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "reliability.md"
COPIES = ROOT / ".cache" / "mutation"
SCORE = Path(__file__).with_name("score.json")
SECONDS = 600
"""Of one stage, after which a mutant counts as caught: it hangs."""
MARK, END = "<!-- mutants -->\n", "<!-- end of mutants -->"
PYTEST = ("-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", "-m", "not slow")


@dataclass(frozen=True, slots=True)
class Core:
    """What is broken, and what tests it beside the module's own tests, the quickest first."""

    folder: str
    tests: str
    shells: frozenset[str]
    """Modules there that are no core."""
    stages: tuple[tuple[str, tuple[str, ...]], ...]


CORES = (
    Core(
        "runtime/flamestream/core",
        "tests/unit/core",
        frozenset(),
        (
            ("tests of the core", (*PYTEST, "tests/unit/core", "tests/property/test_core_meaning.py")),
            ("seeds", ("-m", "flamestream.cli.main", "simulate", "--seeds", "0:150")),
            (
                "seeds, 2pc",
                (
                    "-m",
                    "flamestream.cli.main",
                    "simulate",
                    "--seeds",
                    "0:60",
                    "--guarantee",
                    "exactly-once-2pc",
                ),
            ),
        ),
    ),
    Core(
        "operator/flamestream_operator/jobs",
        "tests/unit/operator",
        frozenset({"inputs.py", "memory.py", "object_effects.py", "reconciler.py", "stream_effects.py"}),
        (
            ("tests of the core", (*PYTEST, "tests/unit/operator")),
            ("chaos", (*PYTEST, "tests/sim/test_operator_chaos.py")),
        ),
    ),
)


def drawn(count: int, seed: int, only: str) -> list[Mutant]:
    """So many of all mutants, in an order that the seed decides."""
    found: list[Mutant] = []
    for core in CORES:
        for file in sorted((ROOT / core.folder).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            if only in path and file.name not in core.shells:
                found += mutants(path, file.read_text())
    return random.Random(seed).sample(found, min(count, len(found)))


class Copy:
    """A copy of the checkout in which one mutant at a time lives."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("runtime", "operator", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        self._folder = folder

    def caught(self, mutant: Mutant) -> str:
        """The stage that noticed it; "" if none did."""
        file = self._folder / mutant.path
        whole = file.read_text()
        file.write_text(mutant.source())
        try:
            return next((stage for stage, command in self._stages(file) if not self._passes(command)), "")
        finally:
            file.write_text(whole)

    def _stages(self, file: Path) -> list[tuple[str, tuple[str, ...]]]:
        (core,) = [core for core in CORES if file.is_relative_to(self._folder / core.folder)]
        own = sorted((self._folder / core.tests).rglob(f"test_{file.stem}*.py"))
        first = (
            [("its own tests", (*PYTEST, *(str(test.relative_to(self._folder)) for test in own)))]
            if own
            else []
        )
        return [*first, *core.stages]

    def _passes(self, command: tuple[str, ...]) -> bool:
        path = os.pathsep.join(str(self._folder / name) for name in ("runtime", "operator", "tests"))
        environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=self._folder,
                env=environment,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def told(score: dict[str, Any]) -> str:
    """The score as the page has it."""
    caught = {stage: count for stage, count in score["caught by"].items() if stage != "nothing"}
    head = f"Of {score['mutants']} mutants (seed {score['seed']}) {sum(caught.values())} were caught: "
    places = [
        each.removeprefix("runtime/flamestream/").removeprefix("operator/flamestream_operator/")
        for each in score["survivors"]
    ]
    lines = [
        head + ", ".join(f"{count} by {stage}" for stage, count in caught.items()) + ".",
        "",
        "Survivors:",
        "",
    ]
    return "\n".join([*lines, *(f"- `{each}`" for each in places)]) + "\n"


def run(options: argparse.Namespace) -> int:
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(options.jobs):
        copies.put(Copy(COPIES / str(number)))

    def attempt(mutant: Mutant) -> tuple[Mutant, str]:
        copy = copies.get()
        try:
            return mutant, copy.caught(mutant)
        finally:
            copies.put(copy)

    stages: Counter[str] = Counter()
    survivors: list[str] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, stage in pool.map(attempt, drawn(options.count, options.seed, options.only)):
            stages[stage or "nothing"] += 1
            survivors += [str(mutant)] if not stage else []
            print(f"{mutant}: {f'caught by {stage}' if stage else 'SURVIVES'}", flush=True)
    score = {
        "mutants": stages.total(),
        "seed": options.seed,
        "caught by": dict(stages.most_common()),
        "survivors": sorted(survivors),
    }
    if not options.only:
        SCORE.write_text(json.dumps(score, indent=1) + "\n")
        before, _, rest = PAGE.read_text().partition(MARK)
        PAGE.write_text(before + MARK + told(score) + END + rest.partition(END)[2])
    print(f"{stages.total() - len(survivors)} of {stages.total()} were caught")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default="", help="a part of the paths of modules; the score is then not kept"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
