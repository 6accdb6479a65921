"""Transactions that do what they may not, in a job that really runs: each is an error item that says what happened,
where and what to do, and changes nothing; what depends on a clock is found in debug mode, and at a replay."""

import re
from pathlib import Path
from typing import Any

from flamestream.job.exit_codes import ExitCode
from flamestream.model.payload import ErrorValue
from flamestream.reference import ERRORS
from support.runs.cli_job import CliJob, canonical
from support.runs.kills import kill_a_worker_after_more_output
from support.runs.numbers_job import Make, check, reference, written

BANK = """
import os
import time
import flamestream as fs

def allowed(key, value):
    if value == 4000:
        raise LookupError(f"no rule for {key}")
    return value >= 0

def of_tens(value):
    return 100 // (value - 5000)

graph = fs.Graph("bank")
rows = graph.table("rows", initial=int, check=allowed)
by_tens = rows.index("by_tens", key=of_tens)

def moved(state, n):
    state[rows, n % 5] += 1
    BODY
    return n, state[rows, n % 5]

outcomes = graph.source("numbers").transact(moved)
outcomes.committed.sink("out")
outcomes.aborted.map(lambda aborted: aborted.transaction).sink("refused")
"""
MISTAKES = """if n == 100:
        for key in range(10_000):
            state[rows, key] = 1
    if n == 200:
        state[rows, 7] = [n]
    if n == 300:
        state[rows, 7] = 4000
    if n == 400:
        state[rows, 7] = 5000
    if n == 500:
        state["row", 7] = 1
    if n == 600:
        state[rows, 7] = -1"""
SAID = {
    "100": ("moved", "touches more than 256 rows.*make several of it"),
    "200": ("moved", "a list is not a payload: "),
    "300": ("allowed", "no rule for 7"),
    "400": ("of_tens", "by zero"),
    "500": ("moved", "no table 'row': it has rows, by_tens"),
}
"""Whose fault each is, and what is said."""


def bank(
    make: Make, folder: Path, body: str, source: dict[str, Any], *sinks: str, **more: Any
) -> tuple[Path, CliJob]:
    """A job whose transactions do this besides."""
    application = written(folder, BANK, body)
    return application, make(application, {"generator": source}, "refused", *sinks, **more)


def test_each_mistake_is_an_error_item_that_changes_nothing(make: Make, tmp_path: Path) -> None:
    application, job = bank(make, tmp_path, MISTAKES, {"count": 700}, "bad", onError={"deadLetter": "bad"})
    job.start()
    check(job)
    wanted = reference(application, range(700))
    assert canonical(job.delivered("out")) == wanted["out"]
    assert canonical(job.delivered("bad")) == wanted[ERRORS]
    assert job.delivered("refused") == [600]
    errors = [error for error in job.delivered("bad") if isinstance(error, ErrorValue)]
    assert sorted(error.payload for error in errors) == sorted(SAID)
    for error in errors:
        whose, said = SAID[error.payload]
        assert error.function.endswith(whose) and re.search(said, error.message), error
    assert job.audit()["clean"]


def test_one_that_reads_a_clock_is_named_in_debug_mode(make: Make, tmp_path: Path) -> None:
    _, job = bank(make, tmp_path, "state[rows, 7] = time.time_ns()", {"count": 10})
    job.start("--debug")
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert re.search(r"moved gave two results for one input: functions must not depend on clock", message), (
        message
    )


def test_one_that_depends_on_its_process_is_found_at_the_replay_after_a_kill(
    make: Make, tmp_path: Path
) -> None:
    _, job = bank(
        make, tmp_path, "state[rows, n % 5] += os.getpid()", {"rate": 2000},
        checkpoint={"interval": "1h", "store": "snapshots"},
    )  # fmt: skip
    job.start()
    kill_a_worker_after_more_output(job, reads=True)
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert "not deterministic, or changed: they must not depend on clock, randomness" in message, message
