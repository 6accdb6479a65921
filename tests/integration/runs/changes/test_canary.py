"""The canary of an upgrade, as its author meets it: what new code gives for the newest records, beside what the
code that runs gives for them."""

import json
import re
from typing import Any

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

APPLICATION = """\
import flamestream as fs
from pathlib import Path
from rates import RATE

@fs.call(timeout="5s")
def taxed(number: int) -> int:
    with Path("asked.txt").open("a") as asked:
        asked.write(f"{number}\\n")
    return number * 100

def number(line):
    return int(line)

def priced(number):
    return number * RATE

def fold(total, number):
    return total + number

graph = fs.Graph("sums")
numbers = graph.source("lines").map(number)
numbers.reduce(key=lambda n: n % 3, initial=int, combine=fold, name="sums").map(priced).sink("sums")
numbers.call(taxed, name="taxed").sink("taxes")
"""
SPEC = (
    "sources: {lines: {files: {path: in, records: lines, follow: true}}}",
    "sinks: {sums: {files: {path: sums, fsync: false}}, taxes: {files: {path: taxes, fsync: false}}}",
    "journal: {folder: journal, fsync: false}",
    SMALL[0],
    SMALL[2],
)
RARELY = "checkpoint: {interval: 5m, store: snapshots}"
OFTEN = "checkpoint: {interval: 200ms, store: snapshots}"
COUNT = 60


def feed(scratch: Scratch, numbers: range) -> None:
    """Append lines, and wait until all that comes of them is out."""
    before = scratch.status()["items_out"]
    with (scratch.path / "in" / "lines.txt").open("a") as file:
        file.write("".join(f"{number}\n" for number in numbers))
    eventually(
        # a sum and a tax
        lambda: scratch.status()["items_out"] >= before + 2 * len(numbers),
        f"{len(numbers)} lines are through",
    )


def running(scratch: Scratch) -> None:
    """A job with state below its committed cut, and COUNT records and their answers behind it."""
    scratch.job(APPLICATION, *SPEC, OFTEN)
    scratch.write("rates.py", "RATE = 1\n")
    scratch.write("in/lines.txt", "")
    first = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    eventually(lambda: scratch.status()["epoch"] >= 1, "it runs")
    feed(scratch, range(1000, 1000 + COUNT))
    first.terminate()
    assert "drained" in first.communicate(timeout=60)[0]
    # (!) From here on no epoch is due: what is fed stays behind the cut.
    scratch.job(APPLICATION, *SPEC, RARELY)
    scratch.begin("run", "job.yaml", "--no-spark")
    epoch = scratch.status()["epoch"]
    eventually(
        lambda: scratch.status().get("phase") == "running" and not scratch.status()["outcome"],
        "it runs again",
    )
    feed(scratch, range(COUNT))
    assert scratch.status()["epoch"] == epoch


def diff(scratch: Scratch, code: int) -> dict[str, Any]:
    said = scratch.type("upgrade", "job.yaml", "--diff", "--json")
    assert said.code == code, said.text
    found: dict[str, Any] = json.loads(said.text)
    assert not found["untried"], found["untried"]
    return found


def sums(rate: int) -> list[int]:
    """What the records behind the cut give, by arithmetic: the state has those before."""
    totals = {rest: sum(n for n in range(1000, 1000 + COUNT) if n % 3 == rest) for rest in range(3)}
    found = []
    for number in range(COUNT):
        totals[number % 3] += number
        found.append(totals[number % 3] * rate)
    return found


@pytest.mark.slow
def test_both_codes_give_what_they_would_for_the_records_behind_the_cut(scratch: Scratch) -> None:
    running(scratch)
    asked = (scratch.path / "asked.txt").read_text()

    same = diff(scratch, ExitCode.OK)
    # a sum, a request and a tax of each record; the answers are records too
    assert (same["equal"], same["records"]) == (3 * COUNT, 2 * COUNT)

    scratch.write("rates.py", "RATE = 3\n")
    other = diff(scratch, ExitCode.DIFFERENCE)
    assert (other["differ"], other["equal"], other["new_errors"]) == (COUNT, 2 * COUNT, 0)
    shown = [(int(each["before"]), int(each["after"])) for each in other["differences"]]
    assert shown == list(zip(sums(1), sums(3), strict=True))[: len(shown)]
    assert all(each["sink"] == "sums" for each in other["differences"])

    # what nobody has asked has no answer, and nobody is asked now
    scratch.write("app.py", APPLICATION.replace("numbers.call(", "numbers.map(lambda n: n + n % 2).call("))
    unanswered = diff(scratch, ExitCode.DIFFERENCE)
    assert unanswered["only_before"] == COUNT // 2
    assert any(f"{COUNT // 2} requests of the new code" in note for note in unanswered["notes"])
    assert (scratch.path / "asked.txt").read_text() == asked


def test_an_error_that_the_code_before_does_not_give_refuses_the_upgrade_unless_that_is_meant(
    scratch: Scratch,
) -> None:
    running(scratch)
    code = scratch.status()["code"]
    scratch.write("app.py", APPLICATION.replace("return number * RATE", "return number // (number % 5)"))
    refused = scratch.type("upgrade", "job.yaml")
    assert refused.code == ExitCode.JOB_FAILED, refused.text
    assert "ZeroDivisionError in app.priced" in refused.text and "set upgrade.canary: 0" in refused.text
    wrong = [total for total in sums(1) if total % 5 == 0]
    assert re.search(rf"\b{len(wrong)} new errors", refused.text), refused.text
    assert scratch.status()["code"] == code and not scratch.status()["successors"]

    manifest = scratch.path / "job.yaml"
    manifest.write_text(manifest.read_text() + "  upgrade: {canary: 0}\n")
    assert scratch.type("upgrade", "job.yaml").code == ExitCode.OK
    assert scratch.status()["code"] != code
