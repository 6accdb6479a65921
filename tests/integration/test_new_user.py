"""What somebody meets who writes a first job, mistypes things and comes back: by the commands alone."""

import json
from pathlib import Path

import pytest

from flamestream.cli.exit_codes import ExitCode
from support.scratch import SMALL, Scratch

SHOP = """\
from dataclasses import dataclass
import flamestream as fs

@fs.payload_type
@dataclass(frozen=True, slots=True)
class Sale:
    shop: str
    cents: int

def parsed(line):
    shop, cents = line.split(",")
    return Sale(shop, int(cents))

graph = fs.Graph("shop")
sales = graph.source("lines").map(parsed)
sales.reduce(key=fs.field("shop"), combine=fs.total("cents")).sink("out")
"""
LINES = "north,1\nsouth,2\nwest\neast,3\n"
SOURCE = "sources: {lines: {files: {path: in.txt, records: lines}}}"


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    made = Scratch(tmp_path)
    made.write("in.txt", LINES)
    return made


def test_a_user_s_error_says_everything_that_mending_it_takes(scratch: Scratch) -> None:
    scratch.job(SHOP, SOURCE, "sinks: {out: {files: {path: out, fsync: false}}}", *SMALL)
    said = scratch.type("run", "job.yaml", "--no-spark")
    assert said.code == ExitCode.JOB_FAILED
    for wanted in (
        "app.parsed raised ValueError: not enough values to unpack (expected 2, got 1) (record 2 of source 'lines')",
        "operation 1, map of app.py:15, was given 'west'",
        "app.py:11 in parsed",
        "onError: {deadLetter: SINK}",
    ):
        assert wanted in said.text


def test_dead_letters_say_where_they_came_from(scratch: Scratch) -> None:
    sinks = "sinks: {out: {files: {path: out, fsync: false}}, bad: {files: {path: bad, fsync: false}}}"
    scratch.job(SHOP, SOURCE, sinks, "onError: {deadLetter: bad}", *SMALL)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    (letter,) = map(json.loads, scratch.type("cat", "bad", "job.yaml").text.splitlines())
    assert letter == {
        "function": "app.parsed", "error": "ValueError", "message": "not enough values to unpack (expected 2, got 1)",
        "source": "lines", "partition": "", "offset": 2, "operation": 1, "payload": "'west'", "traceback": ["app.py:11 in parsed"],
    }  # fmt: skip
    assert json.loads(scratch.type("audit", "job.yaml", "--json").text)["clean"]


def test_input_that_comes_behind_a_job_s_end_is_not_passed_over_in_silence(scratch: Scratch) -> None:
    scratch.write("in.txt", "north,1\nsouth,2\n")
    scratch.job(SHOP, SOURCE, "sinks: {out: {files: {path: out, fsync: false}}}", *SMALL)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    status = scratch.type("status", "job.yaml")
    assert status.code == ExitCode.OK and "it completed" in status.text
    assert "started (" in status.text and "no recovery since" in status.text and "  2 in  2 out" in status.text
    scratch.write("in.txt", "north,1\nsouth,2\n" + "west,3\n" * 100)
    again = scratch.type("run", "job.yaml", "--no-spark")
    assert again.code == ExitCode.JOB_FAILED
    assert "completed: it had completed; 100 new records of source 'lines' not read. Set `follow: true`" in again.text
    assert "0 lost" in scratch.type("audit", "job.yaml").text
