"""A job of another name goes on with the sources, the sinks and the state of one that runs."""

import json
import re
import signal
import subprocess

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

BLUE = """\
import flamestream as fs

def priced(n):
    return int(n) * {rate}

graph = fs.Graph("sums")
graph.source("numbers").map(priced).reduce(
    name="sums", key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n
).sink("sums", key=lambda total: total % 5)
"""
ENDLESS = "sources: {numbers: {generator: {count: 1000000, rate: 500}}}"
"""A stream that ends when its test says so, however long the other job takes to start."""


FOLLOWED = "sources: {numbers: {files: {path: in, records: lines, follow: true}}}"
JOURNAL = "journal: {folder: journal, fsync: false}"
"""Trimmed at each commit."""


def blue(scratch: Scratch, *source: str) -> subprocess.Popen[str]:
    """A job called `job` that runs, and the manifest of one called `green` that goes on with it."""
    spec = (*(source or (ENDLESS,)), "sinks: {sums: {files: {path: out, fsync: false}}}", *SMALL)
    scratch.job(BLUE.format(rate=1), *spec)
    manifest = (scratch.path / "job.yaml").read_text()
    green = manifest.replace("name: job", "name: green").replace("app.py", "green.py")
    scratch.write("green.yaml", f"{green}  takeOver: {{job: job}}\n")
    scratch.write("green.py", BLUE.format(rate=2))
    run = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    if source:  # which nobody feeds yet: an idle stream takes no epoch
        eventually(lambda: scratch.status()["epoch"] >= 1, "it has committed", within=60.0)
    else:
        scratch.goes_on()
    return run


def green(scratch: Scratch) -> subprocess.Popen[str]:
    """The other one, which begins."""
    return scratch.begin("run", "green.yaml", "--no-spark", "--drain")


def drained(run: subprocess.Popen[str]) -> None:
    """Stop it between two results; all that entered is delivered."""
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == ExitCode.OK and "drained" in said, said


def audited(scratch: Scratch, manifest: str) -> list[int]:
    """How many results each of its codes gave; together they are what came of every record, each once."""
    audit = json.loads(scratch.type("audit", manifest, "--json").text)
    results = [each["results"] for each in audit["codes"]] or [audit["verdict"]["delivered"]]
    assert audit["clean"] and audit["verdict"]["delivered"] == audit["verdict"]["expected"] == sum(results)
    return results


def test_it_goes_on_at_one_cut_and_each_result_is_of_one_code(scratch: Scratch) -> None:
    run = blue(scratch)
    taking = green(scratch)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == ExitCode.OK and "handed over to green" in said
    scratch.goes_on("green")
    drained(taking)
    its = audited(scratch, "green.yaml")
    assert len(its) == 2 and all(its)

    again = scratch.type("run", "job.yaml", "--no-spark")
    assert again.code == ExitCode.JOB_FAILED and "handed over to green" in again.text
    scratch.type("reset", "job.yaml", "--yes")
    assert json.loads(scratch.type("audit", "green.yaml", "--json").text)["clean"], "what is green's stays"


def test_one_that_could_not_go_on_leaves_the_other_as_it_is(scratch: Scratch) -> None:
    run = blue(scratch)
    scratch.write("green.py", BLUE.format(rate=2).replace('name="sums"', 'name="other"'))
    refused = scratch.type("run", "green.yaml", "--no-spark")
    assert refused.code == ExitCode.JOB_FAILED and "has state of operation 'sums'" in refused.text
    elsewhere = (scratch.path / "green.yaml").read_text().replace("path: out", "path: elsewhere")
    scratch.write("elsewhere.yaml", elsewhere)
    placed = scratch.type("run", "elsewhere.yaml", "--no-spark")
    assert placed.code == ExitCode.USAGE and "spec.sinks.sums" in placed.text
    scratch.goes_on()
    drained(run)
    assert all(audited(scratch, "job.yaml"))


def test_a_job_that_does_not_run_hands_nothing_over(scratch: Scratch) -> None:
    run = blue(scratch)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    refused = scratch.type("run", "green.yaml", "--no-spark")
    assert refused.code == ExitCode.JOB_FAILED and "does not run" in refused.text


@pytest.mark.slow  # the simulator draws such starts at each push
def test_a_start_that_died_behind_the_hand_over_goes_on_there(scratch: Scratch) -> None:
    run = blue(scratch)
    taking = green(scratch)
    run.communicate(timeout=60)
    taking.kill()
    taking.communicate()
    again = green(scratch)
    scratch.goes_on("green")
    drained(again)
    assert len(audited(scratch, "green.yaml")) == 2


def shadow(scratch: Scratch) -> subprocess.Popen[str]:
    """The other one, which takes nothing over."""
    manifest = (scratch.path / "green.yaml").read_text().replace("{job: job}", "{job: job, shadow: true}")
    scratch.write("green.yaml", manifest)
    return scratch.begin("run", "green.yaml", "--no-spark")


def feed(scratch: Scratch, numbers: range) -> None:
    with (scratch.path / "in" / "numbers.txt").open("a") as file:
        file.write("".join(f"{number}\n" for number in numbers))


@pytest.mark.parametrize(
    ("journalled", "rate"),
    [
        pytest.param(False, 1, id="timed", marks=pytest.mark.slow),
        pytest.param(False, 2, id="timed, other code"),
        pytest.param(True, 1, id="journalled", marks=pytest.mark.slow),
        pytest.param(True, 2, id="journalled, other code", marks=pytest.mark.slow),
    ],
)
def test_a_shadow_goes_on_with_a_state_of_its_own(journalled: bool, rate: int, scratch: Scratch) -> None:
    """The same code gives what was delivered at each cut, whatever its state has come to; other code never does."""
    scratch.write("in/numbers.txt", "1\n" * 10)
    run = blue(scratch, *((FOLLOWED, JOURNAL) if journalled else ()))
    scratch.write("green.py", BLUE.format(rate=rate) + "# edited\n")
    beside, rounds = shadow(scratch), list[str]()
    assert beside.stdout is not None
    while len(rounds) < 3:
        feed(scratch, range(1, 100))  # behind what the round before has had
        line = beside.stdout.readline()
        assert line, "it has ended"
        rounds += [line] if "with a state of its own" in line else []
    beside.send_signal(signal.SIGINT)
    rest, _ = beside.communicate(timeout=60)
    total = rest.splitlines()[-1]
    found = re.fullmatch(
        r"shadow: since epoch \d+: ([\d,]+) records, ([\d,]+) results? equal(, [\d,]+ differ)?", total
    )
    assert found is not None, (rounds, rest)
    if rate == 1:
        assert (beside.returncode, found[1], found[3]) == (ExitCode.OK, found[2], None), (rounds, rest)
    else:
        assert (beside.returncode, found[2], found[3]) == (ExitCode.DIFFERENCE, "0", f", {found[1]} differ")
    assert run.poll() is None
    drained(run)


def test_a_shadow_says_what_differs_and_takes_nothing(scratch: Scratch) -> None:
    run = blue(scratch)
    beside = shadow(scratch)
    assert beside.stdout is not None
    lines = [beside.stdout.readline() for _ in range(8)]
    assert any("differ" in line for line in lines) and any("sums, of record" in line for line in lines), lines
    beside.send_signal(signal.SIGINT)
    beside.communicate(timeout=60)
    assert beside.returncode == ExitCode.DIFFERENCE
    scratch.goes_on()
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
