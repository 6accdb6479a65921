"""Jobs of the command line that sum numbers, and what each of their sinks must hold."""

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flamestream.core.protocol.events import Entry
from flamestream.core.worker.front import RunRecords
from flamestream.job.application import load
from flamestream.job.exit_codes import ExitCode
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import interpret
from support.runs.cli_job import REPOSITORY, CliJob, canonical

INDEX = REPOSITORY / "examples" / "inverted_index.py"
COUNTER = itertools.count()
Make = Callable[..., CliJob]

NUMBERS = """
import os
import flamestream as fs

def number(n):
    BODY

graph = fs.Graph("numbers")
graph.source("numbers").map(number).reduce(
    key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n, emit=lambda total, n: (n, total)
).sink("out", key=lambda pair: pair[0] % 7)
"""


def numbers(folder: Path, body: str = "return n") -> Path:
    """An application whose map function has this body. A process imports a name once, so each has its own."""
    return written(folder, NUMBERS, body)


def written(folder: Path, application: str, body: str) -> Path:
    """An application that has this body in the place of BODY."""
    file = folder / f"app_{os.getpid()}_{next(COUNTER)}.py"
    file.write_text(application.replace("BODY", body))
    return file


def reference(application: Path, records: Sequence[Any]) -> dict[str, list[bytes]]:
    """What each sink must hold, and what the errors are."""
    runs = [run_of(number, record) for number, record in enumerate(records)]
    return {
        sink: canonical([payload for _, payload in items])
        for sink, items in interpret(load(application, "graph"), runs).items()
    }


def run_of(number: int, record: Any) -> tuple[Time, RunRecords]:
    """One record as a run of its own."""
    time = time_of(Timestamp(1 + number), FrontId(0))
    return time, RunRecords([record], Entry(time, Partition(""), Offset(number), 1))


def check(job: CliJob, outcome: str = "completed", code: ExitCode = ExitCode.OK) -> str:
    """How it ends; its message."""
    got, answer = job.end()
    assert (got, answer["outcome"]) == (code, outcome), f"{answer}\n{job.told()}"
    return str(answer["message"])


def snapshots(job: CliJob) -> list[dict[str, Any]]:
    """The oldest first, as the command line lists them."""
    code, found = job.ask("snapshots", "list", str(job.manifest))
    assert code == ExitCode.OK, found
    assert isinstance(found, list)
    return found
