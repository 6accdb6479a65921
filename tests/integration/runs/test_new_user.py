"""What somebody meets who writes a first job, mistypes things and comes back: by the commands alone."""

import json
import signal

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

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
def scratch(scratch: Scratch) -> Scratch:
    scratch.write("in.txt", LINES)
    return scratch


def test_a_user_s_error_says_everything_that_mending_it_takes(scratch: Scratch) -> None:
    scratch.job(SHOP, SOURCE, "sinks: {out: {files: {path: out, fsync: false}}}", *SMALL)
    said = scratch.type("run", "job.yaml", "--no-spark")
    assert said.code == ExitCode.JOB_FAILED
    for wanted in (
        "app.parsed raised ValueError: not enough values to unpack (expected 2, "
        "got 1) (record 2 of source 'lines')",
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
        "function": "app.parsed", "error": "ValueError",
        "message": "not enough values to unpack (expected 2, got 1)", "source": "lines", "partition": "",
        "offset": 2, "operation": 1, "payload": "'west'", "traceback": ["app.py:11 in parsed"],
    }  # fmt: skip
    assert json.loads(scratch.type("audit", "job.yaml", "--json").text)["clean"]


def test_input_that_comes_behind_a_job_s_end_is_not_passed_over_in_silence(scratch: Scratch) -> None:
    scratch.write("in.txt", "north,1\nsouth,2\n")
    scratch.job(SHOP, SOURCE, "sinks: {out: {files: {path: out, fsync: false}}}", *SMALL)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    status = scratch.type("status", "job.yaml")
    assert status.code == ExitCode.OK and "it completed" in status.text
    assert (
        "started (" in status.text and "no recovery since" in status.text and "  2 in  2 out" in status.text
    )
    scratch.write("in.txt", "north,1\nsouth,2\n" + "west,3\n" * 100)
    again = scratch.type("run", "job.yaml", "--no-spark")
    assert again.code == ExitCode.JOB_FAILED
    assert (
        "completed: it had completed; 100 new records of source 'lines' not read. Set `follow: true`"
        in again.text
    )
    assert "0 lost" in scratch.type("audit", "job.yaml").text


def test_a_start_that_is_refused_claims_nothing(scratch: Scratch) -> None:
    """Whatever it names next is free."""
    scratch.write("in.txt", "north,1\n")
    out = "sinks: {out: {files: {path: out, fsync: false}}}"
    scratch.job(SHOP, SOURCE, out, *SMALL)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK

    scratch.job(SHOP, SOURCE, out, *SMALL, name="other", file="other.yaml")
    store = scratch.type("run", "other.yaml", "--no-spark")
    assert (
        store.code == ExitCode.JOB_FAILED
        and "belongs to job 'job'" in store.text
        and "--run-folder" not in store.text
    )
    scratch.job(
        SHOP,
        SOURCE,
        out,
        *(line.replace("store: snapshots", "store: others") for line in SMALL),
        name="other",
        file="other.yaml",
    )
    sink = scratch.type("run", "other.yaml", "--no-spark")
    assert (
        sink.code == ExitCode.USAGE
        and "spec.sinks.out: " in sink.text
        and "holds the output of job 'job', sink 'out'" in sink.text
    )
    assert not (scratch.path / "others").exists()

    scratch.job(
        SHOP,
        "sources: {lines: {files: {path: missing.txt, records: lines}}}",
        out.replace("out,", "new,"),
        *(line.replace("store: snapshots", "store: others") for line in SMALL),
        name="third",
        file="third.yaml",
    )
    assert scratch.type("run", "third.yaml", "--no-spark").code != ExitCode.OK
    assert not (scratch.path / "others" / "lineage.json").exists(), (
        "a first run that has saved nothing leaves no claim"
    )


def test_reset_makes_a_job_one_that_never_ran_and_touches_nothing_else(scratch: Scratch) -> None:
    scratch.write("in.txt", "north,1\n")
    follow = "sources: {lines: {files: {path: in.txt, records: lines, follow: true}}}"
    scratch.job(
        SHOP, follow, "sinks: {out: {files: {path: out, fsync: false}}}", "journal: {folder: journal}", *SMALL
    )
    run = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    eventually(lambda: list(scratch.path.glob("snapshots/indexes/*")), "it has committed", within=60)
    running = scratch.type("reset", "job.yaml", "--yes")
    assert running.code == ExitCode.ALREADY_RUNNING and "stop it first" in running.text
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode == 0
    mine = [
        scratch.write(f"{place}/mine.txt", "")
        for place in ("out", "journal", "snapshots", ".flamestream/job")
    ]
    before = sorted(scratch.path.rglob("*"))
    asked = scratch.type("reset", "job.yaml")
    assert (
        asked.code != ExitCode.OK
        and "goes: the journal: " in asked.text
        and sorted(scratch.path.rglob("*")) == before
    )
    removed = json.loads(scratch.type("reset", "job.yaml", "--yes", "--json").text)
    assert len(removed["removed"]) == 4 and removed["left"] == []
    left = {path for path in scratch.path.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert left == {*mine, scratch.path / "in.txt", scratch.path / "app.py", scratch.path / "job.yaml"}
    again = scratch.type("reset", "job.yaml", "--yes")
    assert again.code == ExitCode.OK, again.text


def test_a_difference_that_chance_made_is_laid_at_the_function_s_door(scratch: Scratch) -> None:
    chance = SHOP.replace("import flamestream", "import random\nimport flamestream").replace(
        "int(cents))", "int(cents) + random.randrange(99))"
    )
    scratch.write("in.txt", "north,1\n" * 50)
    scratch.job(chance, SOURCE, "sinks: {out: {files: {path: out, fsync: false}}}", *SMALL)
    named = "app.parsed gave two results for one input"
    validated = scratch.type("validate", "job.yaml")
    assert validated.code == ExitCode.USAGE and named in validated.text
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    audit = scratch.type("audit", "job.yaml")
    assert audit.code == ExitCode.DIFFERENCE
    assert "the difference is that of a function: " + named in audit.text and "bug" not in audit.text
