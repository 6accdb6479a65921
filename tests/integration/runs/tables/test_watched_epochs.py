"""A row of a job without a port is watched by the job's epochs: each change once, while it runs and when it is down."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.runs.scratch import SMALL, Scratch

COUNT = 900
APPLICATION = """\
import flamestream as fs

graph = fs.Graph("job")
sums = graph.table("sums", initial=int)


def add(state, number):
    state[sums, number % 3] += 1
    return number


graph.source("numbers").transact(add).committed.sink("out")
sums.keep_changes(1000)
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    made = Scratch(tmp_path)
    sinks = "sinks: {out: {files: {path: out, fsync: false}}}"
    sources = f"sources: {{numbers: {{generator: {{count: {COUNT}, rate: 300}}}}}}"
    made.job(APPLICATION, sources, sinks, *SMALL)
    yield made
    made.close()


def test_a_watch_follows_the_epochs_of_a_job_without_a_port(scratch: Scratch) -> None:
    run = scratch.begin("run", "job.yaml", "--no-spark")
    scratch.goes_on()
    each = COUNT // 3
    watch = scratch.begin("watch", "job.yaml", "sums[1]", "--limit", str(each), "--json")
    told = [json.loads(line) for line in watch.communicate(timeout=120)[0].splitlines()]
    assert [(change["id"], change["after"]) for change in told] == [(str(n), n) for n in range(1, each + 1)]
    assert "completed" in run.communicate(timeout=60)[0]
    said = scratch.type("watch", "job.yaml", "sums[1]", "--after", str(each - 2), "--limit", "1")
    assert said.text == f"{each - 1}: sums[1] = {each - 1}, was {each - 2}\n"
