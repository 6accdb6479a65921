"""A function that never returns ends its worker, again and again, and then the job, with its name: not in
silence for ever."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.eventually import eventually
from support.runs.local_job import LocalJob

HANGS = """
import flamestream as fs

def number(n):
    while n == 7:
        pass
    return n

graph = fs.Graph("hangs")
graph.source("numbers").map(number).sink("out")
"""
TRANSACTS = """
import flamestream as fs

def number(state, n):
    while n == 7:
        state["seen", n]
    return n

graph = fs.Graph("hangs")
graph.table("seen", initial=int)
graph.source("numbers").transact(number).committed.sink("out")
"""
FAILURES = 2


@pytest.fixture(params=[HANGS, TRANSACTS], ids=["a map", "a transaction"])
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalJob]:
    made = LocalJob(tmp_path, request.param, {"generator": {"count": 10, "rate": 1000}})
    made.settings = replace(made.settings, workers=1, failures=FAILURES, heartbeat_us=300_000, grace_us=0)
    yield made
    made.close()


def test_a_function_that_never_returns_ends_the_job_with_its_name(job: LocalJob) -> None:
    words = str(job.folder / "words")
    job.start_coordinator()
    lives = (job.workers[job.start_worker(words=words, patience=1.0)].wait(60) for _ in range(FAILURES + 2))
    # 1: its watchdog; 0: it was told that the job is over. The first may hang before it has told how far it came.
    ended = [*itertools.takewhile(bool, lives)]
    assert ended in ([1] * FAILURES, [1] * (FAILURES + 1)), job.logs()
    assert job.ended() == 1, job.logs()
    status = eventually(job.status, "a last status")
    assert (status.outcome, status.category) == ("failed", "user")
    # whichever line of its loop it was seen at
    where = rf"a function did not return: {re.escape(job.file.name)}:[56] in number"
    assert re.search(where, status.message)
