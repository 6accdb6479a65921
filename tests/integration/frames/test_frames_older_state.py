"""A snapshot as a Spark table, read with code that is newer than the code that wrote it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.runs.scratch import RUNTIME, SMALL, Scratch

pytestmark = [pytest.mark.spark, pytest.mark.frames]
APPLICATION = """\
from typing import Annotated
import flamestream as fs

@fs.event
class Total:
    {fields}

def more(total, n):
    return {made}

def up(total):
    return Total(total.number * 1000, total.what)

graph = fs.Graph("sums")
graph.source("numbers").reduce(
    key=lambda n: n % 7, initial=lambda: {begin}, combine=more, name="totals"{version}
).sink("totals", key=lambda total: None)
"""
BEFORE = {
    "fields": "count: int\n    last: int",
    "made": "Total(total.count + 1, n)",
    "begin": "Total(0, 0)",
    "version": "",
}
AFTER = {
    "fields": 'number: Annotated[float, fs.was("count")]\n    what: str = "none yet"',
    "made": "Total(total.number + 1.0, str(n))",
    "begin": "Total(0.0)",
    "version": "",
}
MIGRATED = {**AFTER, "version": ", version=2, migrate={1: up}"}
COUNT = 30
READ = """\
import json
from flamestream.spark.streaming.session import SparkDriver
from flamestream.spark.frames.session import frames_settings, session_of
from flamestream.spark.tables import register
from pathlib import Path

with SparkDriver(frames_settings(cores=1, scratch=Path("spark"))) as driver:
    spark = session_of(driver)
    register(spark)
    job = spark.read.format("flamestream").option("manifest", "job.yaml")
    state = {json.loads(row.key): json.loads(row.state) for row in job.load().collect()}
    output = [json.loads(row.payload) for row in job.option("sink", "totals").load().orderBy("meta").collect()]
    print(json.dumps([sorted(state.items()), output]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a job that has run to its end with the class as it was."""
    scratch = Scratch(tmp_path_factory.mktemp("older"))
    source = f"sources: {{numbers: {{generator: {{count: {COUNT}}}}}}}"
    sink = "sinks: {totals: {files: {path: out, fsync: false}}}"
    scratch.job(APPLICATION.format(**BEFORE), source, sink, *SMALL)
    run = scratch.type("run", "job.yaml", "--no-spark")
    assert run.code == 0, run.text
    return scratch.path


def read(folder: Path, code: dict[str, str]) -> tuple[dict[int, Any], list[Any]]:
    """State by key and output in order, by a Spark of its own: a process loads an application once."""
    (folder / "app.py").write_text(APPLICATION.format(**code))
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    done = subprocess.run(
        [sys.executable, "-c", READ],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    state, output = json.loads(done.stdout.splitlines()[-1])
    return dict(state), output


def counts() -> dict[int, int]:
    return {rest: len(range(rest, COUNT, 7)) for rest in range(7)}


@pytest.mark.parametrize(
    ("code", "thousand"), [(AFTER, 1), (MIGRATED, 1000)], ids=["other fields", "a migrated state"]
)
def test_state_and_output_of_the_class_before_are_read_as_the_class_of_now(
    folder: Path, code: dict[str, str], thousand: int
) -> None:
    state, output = read(folder, code)
    assert state == {
        rest: {"number": float(count * thousand), "what": "none yet"} for rest, count in counts().items()
    }
    assert output == [{"number": float(n // 7 + 1), "what": "none yet"} for n in range(COUNT)]
