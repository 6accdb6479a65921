"""How long the output stands still when other code takes over a job that runs, and what is lost of it.

    python benchmarks upgrades                        # all of it: some twelve minutes
    python benchmarks upgrades --only tick
    python benchmarks upgrades --table                # what is there so far

Two workers hold the state, and documents of 20 keys each come at a fixed rate between an outside producer and
consumer. The gap of
an upgrade is the longest time between two deliveries around it, seen by the consumer; beside it stands the same of
the calm seconds before.

    tick       100 MB of state in 100,000 keys: a function is changed
    million    1,000,000 keys of 100 bytes: a field and an operation more
    ten        the first job: ten upgrades, in two of which the new code fails its watch (it raises, it kills its
               workers), and a worker killed with SIGKILL in each; then nothing may be lost, doubled, or out of order
    audited    ten such upgrades of a job between files, judged by `flamestream audit` (audited.py)
"""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from figures.big_state import Watch, lines
from figures.recovery import SETTLED, _gap
from harness import JOBS, PATHS
from harness.drive import where
from harness.job import Outcome, Settings, noise, run
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.upgrades import upgrades_table

from upgrades import audited

OUT: Final = CACHE / "upgrades.jsonl"
CALM: Final = 3.0
"""Seconds of normal life before an upgrade, and behind it."""
SECONDS: Final = 20.0
"""Seconds of documents that an upgrade may take."""
TOUCHED: Final = 20
"""Keys of a document."""
KINDS: Final = {"tick": (100_000, 1000, 7), "million": (1_000_000, 100, 5), "ten": (100_000, 1000, 10)}
"""Keys, bytes of a value, and upgrades."""
NUMBERS: Final = 1000.0
"""A second, of the job that is audited."""
RAISES: Final = 3
KILLS: Final = 7
"""The upgrades of `ten` that fail."""


@dataclass(slots=True)
class Made:
    """An upgrade, on the monotonic clock."""

    asked: float
    over: float
    tick_ms: float
    """From the hold to the replay, as the coordinator says; 0: it was taken back."""
    taken_back: bool = False
    killed: float = 0.0
    """When a worker was."""


@dataclass(slots=True)
class Upgraded:
    """The job while it runs, and the versions of its code."""

    kind: str
    folder: Path
    made: list[Made] = field(default_factory=list)

    def go(self, watch: Watch) -> None:
        """Every upgrade, each after a calm while."""
        rng = random.Random(1)
        for number in range(1, KINDS[self.kind][2] + 1):
            watch.for_a_while(CALM)
            fails = self.kind == "ten" and number in (RAISES, KILLS)
            code = self._write(number, fails)
            killed = 0.0
            asked = time.monotonic()
            said = subprocess.run(
                [
                    sys.executable, "-m", "flamestream.cli.main", "upgrade", str(code),
                    "--run-folder", str(self.folder), "--json",
                ],
                capture_output=True, text=True, check=False, env=_environment(),
            )  # fmt: skip
            if fails:
                watch.until(lambda status: "taken back" in status["refusal"] and status["phase"] == "running")
            elif said.returncode:
                raise SystemExit(f"upgrade {number}: {said.stdout}{said.stderr}")
            over = time.monotonic()
            if self.kind == "ten":
                watch.for_a_while(CALM)
                killed = self._kill(watch.status(), rng)
                watch.for_a_while(CALM)
            told = 0.0 if fails else float(json.loads(said.stdout)["gap_ms"] or 0.0)
            self.made.append(Made(asked, over, told, fails, killed))
        watch.for_a_while(CALM)

    def _write(self, number: int, fails: bool) -> Path:
        """A version of the application, and the manifest that names it."""
        place = self.folder.parent / f"code-{number}"
        place.mkdir()
        for name in ("big_values.py", "workload.py"):
            (place / name).write_text((JOBS / name).read_text())
        text = (place / "big_values.py").read_text()
        if self.kind == "million":
            text = more_of(text, number)
        line = 'return count.to_bytes(8, "big")'
        assert line in text
        mistake = "raise ValueError('mistaken')" if number == RAISES else "os._exit(7)"
        (place / "big_values.py").write_text(
            text.replace(line, f"{mistake if fails else f'assert {number}'}\n    {line}")
        )
        manifest = json.loads((self.folder.parent / "job.yaml").read_text())
        manifest["spec"]["application"]["file"] = str(place / "big_values.py")
        manifest["spec"]["upgrade"] = {
            "canary": 0
        }  # its state is more than a canary reads, or its code has to run
        file = place / "job.yaml"
        file.write_text(json.dumps(manifest))
        return file

    def _kill(self, status: dict[str, Any], rng: random.Random) -> float:
        worker = rng.choice(status["workers"])["worker"]
        pid = json.loads((self.folder / "workers" / f"{worker}.json").read_text())["pid"]
        at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return at


def more_of(text: str, number: int) -> str:
    """The job with an operation more for each upgrade so far, whose state has a class with a field more each."""
    fields = "".join(f"    more{each}: int = 0\n" for each in range(1, number))
    counted = f"\n@fs.event\nclass Seen:\n    count: int = 0\n{fields}\n"
    emit = "emit=change).sink("
    folds = "".join(
        f'emit=change).reduce(name="seen-{each}", key=word_of, initial=Seen, combine=seen, emit=same).sink('
        if each == 1
        else ""
        for each in range(1, number + 1)
    )
    functions = (
        "\ndef seen(old, change):\n    return Seen(old.count + 1)\n"
        "\n\ndef same(old, change):\n    return change\n\n"
    )
    assert emit in text
    return text.replace("\ngraph =", f"{counted}{functions}\ngraph =").replace(emit, folds)


def _environment() -> dict[str, str]:
    path = os.pathsep.join([*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def watched(kind: str, rate: float) -> tuple[Outcome, Upgraded]:
    """A run with all upgrades of a kind."""
    keys, size, count = KINDS[kind]
    seconds = CALM + count * (CALM + SECONDS + (2 * CALM if kind == "ten" else 0))
    documents = lines(keys, TOUCHED, int(seconds * rate))
    fill = len(documents) - int(seconds * rate)
    job: list[Upgraded] = []
    failed: list[BaseException] = []

    def during(folder: Path) -> None:
        try:
            watch = Watch(folder)
            watch.until(lambda status: sum(worker["items_out"] for worker in status["workers"]) >= keys)
            job.append(Upgraded(kind, folder))
            job[0].go(watch)
        except BaseException as error:  # noqa: BLE001  # shown by the main thread
            failed.append(error)

    with tempfile.TemporaryDirectory(prefix="flamestream-lines-") as folder:
        file = Path(folder) / "lines"
        file.write_text("\n".join(documents))
        os.environ["BENCH_VALUE"] = str(size)
        settings = Settings(
            rate=rate, functions="big values", lines=file, fill=fill, warm_up=fill, documents=len(documents),
            deadline=1800.0,
        )  # fmt: skip
        outcome = run(settings, during)
    if failed:
        raise SystemExit(f"{failed[0]!r}")
    return outcome, job[0]


def measure(kind: str, rate: float) -> dict[str, Any]:
    """The row of one kind."""
    before = noise()
    outcome, job = watched(kind, rate)
    came = outcome.deliveries
    good = [made for made in job.made if not made.taken_back]
    row: dict[str, Any] = {"figure": kind, "keys": KINDS[kind][0], "bytes": KINDS[kind][0] * KINDS[kind][1]}
    row |= {"n": len(good)} | _spread("gap", [_gap(came, made.asked, made.over + SETTLED) for made in good])
    row |= _spread("calm", [_gap(came, made.asked - CALM + SETTLED, made.asked) for made in good])
    row |= {"tick_ms": round(statistics.median(made.tick_ms for made in good))}
    if kind == "ten":
        kills = [made.killed for made in job.made]
        row |= _spread("kill_gap", [_gap(came, at, at + CALM) for at in kills])
        row |= _spread("back_gap", [_gap(came, m.asked, m.over + SETTLED) for m in job.made if m.taken_back])
    row |= {"lost": outcome.lost, "doubled": outcome.doubled, "disorder": outcome.disorder}
    return row | before | where()


def _spread(name: str, values: list[float]) -> dict[str, int]:
    return {
        f"{name}_ms": round(statistics.median(values)),
        f"{name}_least_ms": round(min(values)),
        f"{name}_most_ms": round(max(values)),
    }


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--only", default=",".join((*KINDS, "audited")))
    parser.add_argument("--rate", type=float, default=50.0, help="documents a second")
    options = parser.parse_args()
    rows = (
        audited.measure(NUMBERS) if kind == "audited" else measure(kind, options.rate)
        for kind in options.only.split(",")
    )
    tell(options, rows, upgrades_table)


if __name__ == "__main__":
    main()
