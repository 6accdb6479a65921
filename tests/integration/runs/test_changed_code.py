"""An edited application, as its author meets it: the next start says so, and an audit judges what each code
did, as long as it is at hand."""

import json
import shutil
import signal
from collections.abc import Iterator

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

APPLICATION = """\
import flamestream as fs

def number(n):
    from rates import RATE
    return n * RATE

graph = fs.Graph("sums")
numbers = graph.source("numbers").map(number)
numbers.reduce(key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n).sink("totals", key=lambda total: total % 5)
"""  # noqa: E501
COUNT = 6000


def begun(scratch: Scratch) -> None:
    """A job that was stopped by a drain in the middle of its input."""
    rate = f"sources: {{numbers: {{generator: {{count: {COUNT}, rate: 1500}}}}}}"
    scratch.job(APPLICATION, rate, "sinks: {totals: {files: {path: out, fsync: false}}}", *SMALL)
    scratch.write("rates.py", "RATE = 1\n")
    run = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    eventually(lambda: scratch.status()["epoch"] >= 2, "it has committed", within=60)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert "drained" in said


def test_a_job_does_not_go_on_with_edited_code_unless_that_is_meant(scratch: Scratch) -> None:
    begun(scratch)
    scratch.write("rates.py", "RATE = 2\n")
    refused = scratch.type("run", "job.yaml", "--no-spark")
    assert refused.code == ExitCode.JOB_FAILED
    assert "code is not that which job 'job' ran with last" in refused.text and "--changed" in refused.text

    edited = json.loads(scratch.type("audit", "job.yaml", "--json").text)
    assert edited["clean"] and edited["verdict"]["delivered"], "a copy of the code that ran is kept"
    assert scratch.type("run", "job.yaml", "--no-spark", "--changed").code == ExitCode.OK
    both = json.loads(scratch.type("audit", "job.yaml", "--json").text)
    assert both["clean"] and both["verdict"]["delivered"] == COUNT and len(both["codes"]) == 2

    shutil.rmtree(scratch.path / ".flamestream" / "job" / "code")
    other = scratch.type("audit", "job.yaml")
    assert (
        other.code == ExitCode.JOB_FAILED and "the job began with" in other.text and "lost" not in other.text
    )
    scratch.write("rates.py", "RATE = 1\n")
    audit = json.loads(scratch.type("audit", "job.yaml", "--json").text)
    assert audit["clean"] and 0 < audit["verdict"]["delivered"] < COUNT
    assert "code changed at" in audit["bounds"]["changed"]


@pytest.mark.slow  # the page about changing code types it at each push
def test_code_put_back_goes_on_as_if_nothing_had_been(scratch: Scratch) -> None:
    begun(scratch)
    scratch.write("rates.py", "RATE = 2\n")
    scratch.write("rates.py", "RATE = 1\n")
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    assert json.loads(scratch.type("audit", "job.yaml", "--json").text)["verdict"]["delivered"] == COUNT


def edited(scratch: Scratch, *changes: tuple[str, str]) -> None:
    code = APPLICATION
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    scratch.write("app.py", code)


@pytest.mark.slow
def test_another_graph_goes_on_with_the_state_of_each_operation_that_it_has_by_name(scratch: Scratch) -> None:
    begun(scratch)
    gone = ("numbers.reduce(key=lambda n: n % 7", "numbers.reduce(name='rests', key=lambda n: n % 7")
    edited(scratch, gone)
    refused = scratch.type("run", "job.yaml", "--no-spark", "--changed")
    assert refused.code == ExitCode.JOB_FAILED
    assert (
        "has state of operation 'lambda by lambda'" in refused.text
        and "was='lambda by lambda'" in refused.text
    )

    renamed = (gone[0], gone[1].replace("name='rests'", "name='rests', was='lambda by lambda'"))
    more = (
        "numbers.reduce",
        "evens = numbers.filter(lambda n: n % 2 == 0).group(2, key=lambda n: n % 3)\nnumbers.reduce",
    )
    seen = ('.sink("totals"', '.merge(evens.filter(lambda pair: False)).sink("totals"')
    edited(scratch, renamed, more, seen)
    planned = scratch.type("plan", "job.yaml").text
    assert "'rests' keeps" in planned and "'group by lambda' keeps" in planned
    assert scratch.type("run", "job.yaml", "--no-spark", "--changed").code == ExitCode.OK

    shown = json.loads(scratch.type("snapshots", "show", "job.yaml", "--json").text)
    assert [each["name"] for each in shown["inventory"]["operations"]] == ["group by lambda", "rests"]
    totals, results = dict.fromkeys(range(7), 0), []
    for n in range(COUNT):
        totals[n % 7] += n
        results.append(totals[n % 7])
    delivered = [json.loads(line) for line in scratch.type("cat", "totals", "job.yaml").text.splitlines()]
    assert sorted(delivered) == sorted(results), "the fold of all input, as if nothing had been"


@pytest.mark.slow  # what is refused without it, the test above says
def test_state_is_dropped_when_the_manifest_says_so(scratch: Scratch) -> None:
    begun(scratch)
    edited(scratch, ("numbers.reduce(key", "numbers.reduce(name='anew', key"))
    scratch.write(
        "job.yaml", (scratch.path / "job.yaml").read_text() + "  upgrade: {drop: [lambda by lambda]}\n"
    )
    assert scratch.type("run", "job.yaml", "--no-spark", "--changed").code == ExitCode.OK
    delivered = [json.loads(line) for line in scratch.type("cat", "totals", "job.yaml").text.splitlines()]
    assert len(delivered) == COUNT and max(delivered) < max(sum(range(rest, COUNT, 7)) for rest in range(7))


SECONDS = """\
import flamestream as fs

graph = fs.Graph("minutes")
seconds = graph.source("seconds", int, at=lambda second: second, unit="s", max_ahead="1h")
seconds.window(fs.tumbling("1m"), key=lambda _: None).count().sink("counts")
"""


def test_a_silence_longer_than_max_ahead_loses_nothing_behind_a_greater_one(scratch: Scratch) -> None:
    source = "sources: {seconds: {files: {path: seconds.txt, records: lines}}}"
    scratch.job(SECONDS, source, "sinks: {counts: {files: {path: out, fsync: false}}}", *SMALL)
    scratch.write("seconds.txt", "5\n70\n90000\n90001\n")
    stopped = scratch.type("run", "job.yaml", "--no-spark")
    assert stopped.code == ExitCode.JOB_FAILED
    assert "more than its source's max_ahead" in stopped.text and "run --changed" in stopped.text
    assert "(record 2 of source 'seconds')" in stopped.text

    scratch.write("app.py", SECONDS.replace("1h", "2d"))
    assert scratch.type("run", "job.yaml", "--no-spark", "--changed").code == ExitCode.OK
    counts = [json.loads(line) for line in scratch.type("cat", "counts", "job.yaml").text.splitlines()]
    assert [(count["start"], count["value"]) for count in counts] == [(0, 1), (60, 1), (90000, 2)]


CLASSES = """\
from typing import Annotated
import flamestream as fs

@fs.event
class Total:
    rest: int
    {fields}

def more(total, n):
    return {made}

{up}
graph = fs.Graph("sums")
numbers = graph.source("numbers")
numbers.reduce(
    key=lambda n: n % 7, initial=lambda: Total(-1, {begin}), combine=more, name="totals"{version}
).sink("totals", key=lambda total: total.rest)
"""
FIRST = {
    "fields": "count: int\n    last: int",
    "made": "Total(n % 7, total.count + 1, n)",
    "begin": "0, 0",
    "up": "",
    "version": "",
}
RENAMED = {
    **FIRST,
    "fields": 'number: Annotated[float, fs.was("count")]\n    what: str = "none yet"',
    "made": "Total(n % 7, total.number + 1.0, str(n))",
    "begin": "0.0",
}
DOUBLED = {
    **RENAMED,
    "up": "def up(total):\n    return Total(total.rest, total.number * 1000, total.what)\n",
    "version": ", version=2, migrate={1: up}",
}


@pytest.mark.slow
def test_state_goes_on_when_its_class_has_other_fields_and_when_it_is_migrated(scratch: Scratch) -> None:
    """And what does not fit is said before anything is started."""
    rate = f"sources: {{numbers: {{generator: {{count: {COUNT}, rate: 1500}}}}}}"
    scratch.job(CLASSES.format(**FIRST), rate, "sinks: {totals: {files: {path: out, fsync: false}}}", *SMALL)
    _drained(scratch)
    before = _cut(scratch)

    scratch.write(
        "app.py", CLASSES.format(**{**RENAMED, "fields": RENAMED["fields"].replace(' = "none yet"', "")})
    )
    refused = scratch.type("run", "job.yaml", "--no-spark", "--changed")
    assert refused.code == ExitCode.JOB_FAILED and _cut(scratch) == before
    assert "has no field 'what': give 'what' a default" in refused.text
    assert (
        "the state of operation 'totals' cannot be read: payload class app:Total is stored with"
        in refused.text
    )

    failing = DOUBLED["up"].replace("total.number * 1000", "total.missing")
    scratch.write("app.py", CLASSES.format(**{**DOUBLED, "up": failing}))
    refused = scratch.type("run", "job.yaml", "--no-spark", "--changed")
    assert refused.code == ExitCode.JOB_FAILED and "up fails for a state of version 1" in refused.text

    scratch.write("app.py", CLASSES.format(**RENAMED))
    _drained(scratch, "--changed")
    middle = _cut(scratch)
    scratch.write("app.py", CLASSES.format(**DOUBLED))
    assert scratch.type("run", "job.yaml", "--no-spark", "--changed").code == ExitCode.OK

    shown = json.loads(scratch.type("snapshots", "show", "job.yaml", "--json").text)["inventory"]
    assert [each["fields"] for each in shown["classes"]] == [
        ["rest: int", "count: int", "last: int"], ["rest: int", "number: float", "what: str"]
    ]  # fmt: skip
    assert shown["operations"][0]["version"] == 2
    delivered = [
        json.loads(line) for line in scratch.type("cat", "totals", "job.yaml", "--json").text.splitlines()
    ]
    assert [each["payload"] for each in delivered] == list(
        _wanted([each["time"] for each in delivered], before, middle)
    )


def _drained(scratch: Scratch, *arguments: str) -> None:
    run = scratch.begin("run", "job.yaml", "--no-spark", "--drain", *arguments)
    begun = scratch.status()["epoch"]
    eventually(lambda: scratch.status()["epoch"] >= begun + 2, "it has committed", within=60)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert "drained" in said, said


def _cut(scratch: Scratch) -> int:
    return int(json.loads(scratch.type("snapshots", "show", "job.yaml", "--json").text)["cut"])


def _wanted(times: list[int], renamed: int, doubled: int) -> Iterator[dict[str, object]]:
    """Each result by the code of its time, as the newest class reads it."""
    counts = dict.fromkeys(range(7), 0.0)
    last: dict[int, int] = {}
    for n, time in enumerate(times):
        after, again = time << 12 >= renamed, time << 12 >= doubled
        if again and not last.get(n % 7, 0) >= 2:
            counts[n % 7] *= 1000
            last[n % 7] = 2
        counts[n % 7] += 1
        yield {"rest": n % 7, "number": counts[n % 7], "what": str(n) if after else "none yet"}
