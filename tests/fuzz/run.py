"""Fuzz: `python -m fuzz.run TARGET...` until it is interrupted, or with `--runs` so many inputs; with FILE,
one input again.

    make fuzz                                   # all targets in turn, a minute each, until interrupted
    make fuzz FUZZ_ARGS="payload http --seconds 600"
    make fuzz FUZZ_ARGS="payload --repeat tests/fuzz/corpus/payload/..."

An input that breaks a target is written to .cache/fuzz/TARGET/ and the command that repeats it is printed;
once it is mended the file goes to tests/fuzz/corpus/TARGET/ under a name that says what it was. `--keep` puts
the shortest there of what reached new code.

Keeps: with `--runs` and the same seed, the same inputs. Does not: judge (target.py).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Self

import msgspec

from fuzz.loop import Run
from fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).with_name("corpus")
CACHE = ROOT / ".cache" / "fuzz"
SECONDS = 30
"""Of one input, by the clock, after which it counts as one that hangs."""
MOST_KEPT = 20
"""Inputs of a target, regressions included: a folder is for people too."""
MEGABYTES = 1024
"""Of the fuzzing process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has found: inputs that broke the target, and what the process said."""

    broken: tuple[Path, ...]
    said: str
    code: int


def corpus(name: str) -> list[Path]:
    """The kept inputs of a target, regressions among them."""
    return sorted(path for path in (CORPUS / name).glob("*") if path.is_file())


class Fuzzer:
    """The process that fuzzes (loop.py), while this is open: its start costs more than a run."""

    def __enter__(self) -> Self:
        places = os.pathsep.join([str(ROOT / "runtime"), str(ROOT / "tests"), str(ROOT / "operator")])
        environment = {**os.environ, "PYTHONPATH": places, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
        self._said = tempfile.TemporaryDirectory()
        self._errors = (Path(self._said.name) / "errors").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.loop"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()
        self._said.cleanup()

    def fuzz(self, name: str, found: Path, *budget: str, seed: int = 1, variant: str = "") -> Outcome:
        """Inputs within the budget. `found` gets `corpus` (what reached new code) and the inputs that broke
        the target."""
        target = TARGETS[name]
        seeds, grown = found / "seeds", found / "corpus"
        for folder in (seeds, grown):
            folder.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(target.seeds()):
            (seeds / f"seed-{number:03}").write_bytes(data)
        before = set(found.iterdir())
        limits = [
            f"-max_len={target.largest}",
            f"-timeout={SECONDS}",
            f"-rss_limit_mb={MEGABYTES}",
            "-reload=0",
            "-keep_seed=1",
        ]
        # libFuzzer adds to the first
        folders = [str(folder) for folder in (grown, seeds, CORPUS / name) if folder.is_dir()]
        code, said = self._run(
            name, variant, [*budget, f"-seed={seed}", *limits, f"-artifact_prefix={found}/", *folders]
        )
        return Outcome(
            tuple(sorted(path for path in set(found.iterdir()) - before if path.is_file())), said, code
        )

    def _run(self, name: str, variant: str, arguments: list[str]) -> tuple[int, str]:
        said = Path(self._said.name) / "said"
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(
            msgspec.json.encode(Run(name, variant, arguments, str(said))).decode() + "\n"
        )
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._errors.seek(0)
            raise RuntimeError(f"the fuzzing process has ended: {self._errors.read()[-4000:]}")
        return int(answer), said.read_text(errors="replace")


def keep(name: str, found: Path) -> None:
    """Of what reached new code, the shortest inputs, until there are `MOST_KEPT`."""
    known = {path.read_bytes() for path in (*corpus(name), *(found / "seeds").iterdir())}
    new = sorted(
        (path for path in (found / "corpus").iterdir() if path.read_bytes() not in known),
        key=lambda path: path.stat().st_size,
    )
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    for path in new[: max(0, MOST_KEPT - len(corpus(name)))]:
        shutil.copyfile(path, CORPUS / name / path.name[:12])


def repeat(name: str, path: Path) -> None:
    """One input, as it is. Raises what the target raises."""
    TARGETS[name].check(path.read_bytes())


def told(name: str, outcome: Outcome) -> str:
    """For people: the end of what was said, and how to see it again."""
    end = outcome.said[-4000:]
    again = "\n".join(f'again: make fuzz FUZZ_ARGS="{name} --repeat {path}"' for path in outcome.broken)
    return f"{name} ended with {outcome.code}\n{end}\n{again}"


def main(given: Sequence[str]) -> int:
    """Exit code: 0 if nothing broke."""
    parser = argparse.ArgumentParser(description="Fuzz what reads bytes.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument(
        "--repeat", type=Path, metavar="FILE", help="give this input to the target, in this process"
    )
    parser.add_argument("--runs", type=int, help="inputs of each target, once; else for ever")
    parser.add_argument(
        "--seconds", type=int, default=60, help="of each target, before it is the next one's turn"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="add what reached new code to the kept inputs")
    chosen = parser.parse_args(given)
    names = chosen.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"there is no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    if chosen.repeat is not None:
        for name in names:
            repeat(name, chosen.repeat)
        return 0
    rounds: Iterable[int] = [chosen.seed] if chosen.runs or chosen.keep else count(chosen.seed)
    with Fuzzer() as fuzzer:
        return max((_round(fuzzer, names, seed, chosen) for seed in rounds), default=0)


def _round(fuzzer: Fuzzer, names: Sequence[str], seed: int, chosen: argparse.Namespace) -> int:
    code = 0
    for name in names:
        budget = f"-runs={chosen.runs}" if chosen.runs else f"-max_total_time={chosen.seconds}"
        outcome = fuzzer.fuzz(name, CACHE / name, budget, seed=seed)
        print(told(name, outcome) if outcome.code else f"{name}: {_covered(outcome.said)}", flush=True)
        code = max(code, int(outcome.code != 0))
        if chosen.keep:
            keep(name, CACHE / name)
    return code


def _covered(said: str) -> str:
    """The last line about coverage."""
    return next((line.strip() for line in reversed(said.splitlines()) if "cov:" in line), "nothing ran")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
