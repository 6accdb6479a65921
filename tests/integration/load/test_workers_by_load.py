"""On this machine: workers come when there is much to do and go when there is little, slots move from a worker
that has too much to do, and the output is what plain loops make of the input, byte for byte."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flamestream.job.status import JobStatus
from flamestream.model import payload as codec
from flamestream.model.slot import slot_of
from support.eventually import eventually
from support.runs.cli_job import CliJob, canonical, explained

pytestmark = pytest.mark.slow

APPLICATION = """
import time

import flamestream as fs

graph = fs.Graph("slow")


def counted(count: int, line: object) -> int:
    time.sleep(0.004)
    return count + 1


(
    graph.source("lines")
    .reduce(
        key=lambda line: line, initial=int, combine=counted, emit=lambda state, line: (line, state)
    )
    .sink("counts", key=lambda pair: pair[0])
)
"""
SLOTS = 64


class SlowJob(CliJob):
    """Counts lines, at four milliseconds each."""

    def __init__(self, folder: Path, workers: dict[str, Any], *, spark: bool) -> None:
        self.input, self.lines = folder / "lines", list[str]()
        self.input.mkdir()
        application = folder / "slow_lines.py"
        application.write_text(APPLICATION)
        spec = {
            "sources": {"lines": {"files": {"path": "lines", "follow": True, "records": "lines"}}},
            "sinks": {"counts": {"files": {"path": "counts", "fsync": False}}},
            "journal": {"folder": "journal", "fsync": False, "keep": True},
            "workers": {"slots": SLOTS, **workers},
        }
        super().__init__(folder, application, spec, spark=spark)

    def write(self, lines: Sequence[str]) -> None:
        """Append files, none of which keeps a worker busy for so long that it seems lost."""
        fresh = self.path / "fresh"
        for first in range(0, len(lines), 50):
            some = lines[first : first + 50]
            fresh.write_text("".join(f"{line}\n" for line in some))
            fresh.rename(self.input / f"{len(self.lines):06}.txt")
            self.lines += some

    def until(self, what: str, sign: Any) -> JobStatus:
        """Wait for a sign in its status."""

        def look() -> JobStatus | None:
            assert not self.ended, self.told()
            now = self.status()
            return now if now is not None and now.phase == "running" and sign(now) else None

        return eventually(look, what, within=240.0) or pytest.fail(what)

    def is_right(self) -> None:
        """All is delivered, the job ends, and each key's counts are there, in order, once."""
        eventually(lambda: len(self.delivered("counts")) >= len(self.lines), "all is delivered", within=240.0)
        self.signal()
        self.end()
        seen, expected = Counter[str](), list[tuple[str, int]]()
        for line in self.lines:
            seen[line] += 1
            expected.append((line, seen[line]))
        found = self.delivered("counts")
        assert sorted(canonical(found)) == sorted(canonical(expected))
        of_key: dict[str, list[int]] = {}
        for key, count in found:
            of_key.setdefault(key, []).append(count)
        assert all(counts == sorted(counts) for counts in of_key.values())
        assert self.audit()["clean"]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.parametrize("spark", [False, pytest.param(True, marks=pytest.mark.spark)])
def test_workers_come_and_go_with_what_there_is_to_do(tmp_path: Path, stack: ExitStack, spark: bool) -> None:
    job = SlowJob(tmp_path, {"min": 1, "max": 2}, spark=spark)
    stack.callback(job.close)
    with explained(job):
        job.start()
        job.write([f"key-{number % 200}" for number in range(6_000)])
        job.until("a second worker takes part", lambda now: len(now.workers) == 2)
        job.until("one is enough again", lambda now: (len(now.workers), len(now.standbys)) == (1, 0))
        job.write([f"key-{number % 300}" for number in range(600)])
        job.is_right()


def test_slots_move_from_the_worker_that_has_all_to_do(tmp_path: Path, stack: ExitStack) -> None:
    job = SlowJob(tmp_path, {"replicas": 2, "balanceAfter": "5s"}, spark=False)
    stack.callback(job.close)
    # at the first start the slots are in two halves
    keys = [f"key-{number}" for number in range(400)]
    of_one = [key for key in keys if slot_of(codec.encode(key), SLOTS) < SLOTS // 2]
    with explained(job):
        job.start()
        job.write([of_one[number % len(of_one)] for number in range(6_000)])
        moved = job.until("slots move", lambda now: now.last_recovery and now.last_recovery.kind == "moved")
        assert moved.last_recovery is not None and "slots move" in moved.last_recovery.cause
        assert len(moved.workers) == 2
        job.is_right()
