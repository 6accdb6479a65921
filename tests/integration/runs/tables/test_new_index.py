"""An index that comes with an edit of a job that runs: it has all rows, those too that nobody touches any more."""

import json
import signal
from pathlib import Path

import pytest

from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("bank")
accounts = graph.table("accounts", initial=int)
put = graph.source("numbers").upsert(accounts, key=lambda n: min(n, 50), value=lambda n: n % 5)
accounts.changes().map(lambda write: (write.key, write.after)).sink("out")
"""
WITH = APPLICATION + 'accounts.index("by_rest", key={key})\n'
SPEC = (
    "sources: {numbers: {generator: {count: 1000000, rate: 300}}}",
    "sinks: {out: {files: {path: out}}}",
    *SMALL,
)


def rest(scratch: Scratch) -> set[int]:
    """The accounts that the index has under 3, but for the one that changes all the time."""
    said = scratch.type("query", "job.yaml", "by_rest[3]", "--json")
    return set() if said.code else {*json.loads(said.text)["rows"][0].get("state", ())} - {50}


@pytest.mark.parametrize(
    "drained",
    [
        pytest.param(False, id="while it runs"),
        pytest.param(True, id="behind a drain", marks=pytest.mark.slow),
    ],
)
def test_it_has_all_rows(tmp_path: Path, drained: bool) -> None:
    scratch = Scratch(tmp_path)
    scratch.job(APPLICATION, *SPEC)
    running = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    eventually(lambda: scratch.status()["items_out"] > 100, "all accounts are there", within=60)
    scratch.goes_on()
    if drained:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
        scratch.write("app.py", WITH.format(key="lambda rest: rest"))
        said = scratch.type("query", "job.yaml", "by_rest[3]")
        assert said.code != 0 and "'by_rest' is new" in said.text, "no answer is none that is empty"
        running = scratch.begin("run", "job.yaml", "--no-spark", "--drain", "--changed")
    else:
        scratch.write("app.py", WITH.format(key="lambda rest: 1 // (rest - 3)"))
        said = scratch.type("upgrade", "job.yaml")
        assert said.code != 0 and "index 'by_rest' cannot be made of the rows that are there" in said.text
        scratch.write("app.py", WITH.format(key="lambda rest: rest"))
        said = scratch.type("upgrade", "job.yaml")
        assert said.code == 0, said.text
    scratch.goes_on()
    eventually(lambda: rest(scratch) == set(range(3, 50, 5)), "the index has all rows", within=60)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    audit = json.loads(scratch.type("audit", "job.yaml", "--json").text)
    assert audit["clean"], audit
    scratch.close()
