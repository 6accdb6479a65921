"""Other code that ends the processes it runs in: the job goes back to the code before, and loses and doubles
nothing."""

import json
import signal

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

APPLICATION = """\
import flamestream as fs
from change import changed

graph = fs.Graph("sums")
graph.source("numbers").map(changed).reduce(
    name="sums", key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n
).sink("sums", key=lambda total: total % 5)
"""
BEFORE = "def changed(n):\n    return n\n"
AT_A_RECORD = """\
import os
from pathlib import Path

def changed(n):
    if n % 1000 == 999 and Path("{file}").exists():
        os._exit(7)
    return -n
"""
AT_ONCE = """\
import os
from pathlib import Path

def changed(n):
    os._exit(7)
"""
COUNT = 60_000


@pytest.mark.parametrize(
    "code",
    [
        # the simulator draws such code at each push
        pytest.param(AT_A_RECORD, id="at a record", marks=pytest.mark.slow),
        pytest.param(AT_ONCE, id="at once"),
    ],
)
def test_it_goes_back_to_the_code_before(scratch: Scratch, code: str) -> None:
    rate = f"sources: {{numbers: {{generator: {{count: {COUNT}, rate: 1500}}}}}}"
    sinks, untried = "sinks: {sums: {files: {path: out, fsync: false}}}", "upgrade: {canary: 0}"
    scratch.job(APPLICATION, rate, sinks, untried, *SMALL)
    scratch.write("change.py", BEFORE)
    run = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    scratch.goes_on()
    trigger = scratch.path / "now"
    scratch.write("change.py", code.format(file=trigger))
    scratch.type("upgrade", "job.yaml")
    trigger.touch()
    eventually(lambda: "taken back" in json.dumps(scratch.status()), "it is taken back", within=60)
    scratch.goes_on()
    cut = scratch.status()["cut"]
    eventually(
        lambda: scratch.status()["cut"] > cut + (100 << 12),
        "a hundred records of its own are saved",
        within=60,
    )
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert "drained" in said
    trigger.unlink()  # an audit interprets what the code had given again, with that code
    audited = scratch.type("audit", "job.yaml", "--json")
    assert audited.code == ExitCode.OK, audited.text
    audit = json.loads(audited.text)
    results = [each["results"] for each in audit["codes"]]
    assert audit["clean"] and len(results) == 3 and results[0] and results[2]
    assert bool(results[1]) == (code is AT_A_RECORD), "all that it had given stays its own"
