"""Sources that come and go, as the author of an application meets it: what was read stays read, what is new is read
from its start, and what would be lost is said."""

import json
import os
import runpy
import signal
import socket
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("words")
first, *others = [graph.source(name, {decode}) for name in {sources}]
merged = first.merge(*others) if others else first
merged.reduce(
    name="counts", key=lambda word: word, initial=int, combine=lambda count, _: count + 1,
).sink("counts", key=lambda count: count % 5)
"""
CLIENT = Path(__file__).parents[4] / "examples" / "connectors" / "socket_client.py"
UNSAVED = [line.replace("100ms", "30s") for line in SMALL]
OUT = "sinks: {counts: {files: {path: out, fsync: false}}}"


def words(scratch: Scratch, name: str, count: int, of: str) -> str:
    """A source of so many words, one a line."""
    scratch.write(f"{name}.txt", "".join(f"{of}{number % 3}\n" for number in range(count)))
    return f"{name}: {{files: {{path: {name}.txt, records: lines}}}}"


def graph_of(
    scratch: Scratch, sources: dict[str, str], *lines: str, decode: str = "str", small: Sequence[str] = SMALL
) -> None:
    text = APPLICATION.replace("{sources}", repr(list(sources))).replace("{decode}", decode)
    scratch.job(text, f"sources: {{{', '.join(sources.values())}}}", OUT, *small, *lines)


def stopped(scratch: Scratch, *options: str, delivered: int) -> str:
    """A run that is stopped when so much is delivered; what it said."""
    run = scratch.begin("run", "job.yaml", "--no-spark", *options)

    def is_there() -> bool:
        assert run.poll() is None, run.communicate()[0]
        return counted(scratch).total() >= delivered

    eventually(is_there, f"{delivered} results are delivered", within=60)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    return said


def counted(scratch: Scratch) -> Counter[int]:
    shown = scratch.type("cat", "counts", "job.yaml")
    return Counter(map(json.loads, shown.text.splitlines() if shown.code == ExitCode.OK else ()))


def counts_of(*sizes: int) -> Counter[int]:
    """What is delivered where words of three kinds come so many times each."""
    return Counter(number for size in sizes for number in range(1, size + 1))


def produced(records: list[bytes]) -> str:
    """The address of a producer of these records, and of more as they are added."""
    produce = runpy.run_path(str(CLIENT))["produce"]
    listener = socket.create_server(("127.0.0.1", 0))
    Thread(target=produce, args=(listener, records), daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_sources_come_before_between_and_behind_others(scratch: Scratch) -> None:
    left, right = (f"{name}: {{generator: {{count: 2000, rate: 200}}}}" for name in ("left", "right"))
    decode = "lambda word: str(word) if str(word)[0].isalpha() else 'n'"
    graph_of(scratch, {"left": left, "right": right}, decode=decode)
    assert "drained" in stopped(scratch, "--drain", delivered=100)

    new = {name: words(scratch, name, 90, name) for name in ("before", "between", "behind")}
    sources = {
        "before": new["before"], "left": left, "between": new["between"], "right": right, "behind": new["behind"],
    }  # fmt: skip
    graph_of(scratch, sources, decode=decode)
    assert scratch.type("run", "job.yaml", "--no-spark", "--changed").code == ExitCode.OK
    assert counted(scratch) == counts_of(4000, *[30] * 9)
    audit = json.loads(scratch.type("audit", "job.yaml", "--changed", "--json").text)
    assert audit["clean"] and audit["verdict"]["delivered"] == 4270
    shown = json.loads(scratch.type("snapshots", "show", "job.yaml", "--json").text)
    assert shown["inventory"]["fronts"] == ["left", "right", "before", "between", "behind"]


def killed(scratch: Scratch, *, delivered: int) -> None:
    """A run whose processes all end at once when so much is delivered."""
    run = scratch.begin("run", "job.yaml", "--no-spark")
    eventually(lambda: counted(scratch).total() >= delivered, f"{delivered} results are delivered", within=60)
    workers = (scratch.path / ".flamestream" / "job" / "workers").glob("*.json")
    for pid in (run.pid, *(json.loads(worker.read_text())["pid"] for worker in workers)):
        os.kill(pid, signal.SIGKILL)
    run.communicate(timeout=60)


def test_a_killed_run_goes_on_at_another_rate_with_the_times_that_it_had(scratch: Scratch) -> None:
    numbers = "numbers: {generator: {count: 6000, rate: 900}}"
    graph_of(scratch, {"numbers": numbers}, decode="lambda _: 'n'", small=UNSAVED)
    killed(scratch, delivered=300)
    graph_of(scratch, {"numbers": numbers.replace("900", "9000")}, decode="lambda _: 'n'", small=UNSAVED)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    assert counted(scratch) == counts_of(6000), "nothing is lost or doubled"
    audit = json.loads(scratch.type("audit", "job.yaml", "--json").text)
    assert audit["clean"] and audit["verdict"]["delivered"] == 6000


@pytest.mark.parametrize("small", [SMALL, UNSAVED], ids=["behind a snapshot", "before the first snapshot"])
def test_a_source_that_would_get_its_times_otherwise_is_refused_until_it_is_set_back(
    scratch: Scratch, small: Sequence[str]
) -> None:
    numbers = (
        "numbers: {generator: {count: 6000, rate: 400}}"  # not over before a busy machine has stopped it
    )
    graph_of(scratch, {"numbers": numbers}, decode="lambda _: 'n'", small=small)
    stopped(scratch, delivered=100)
    graph_of(scratch, {"numbers": numbers.replace(", rate: 400", "")}, decode="lambda _: 'n'", small=small)
    said = scratch.type("run", "job.yaml", "--no-spark")
    assert (
        said.code == ExitCode.JOB_FAILED and "Set its settings back (`follow`, `rate`, ...)" in said.text
    ), said.text
    graph_of(scratch, {"numbers": numbers.replace("400", "4000")}, decode="lambda _: 'n'", small=small)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    assert counted(scratch) == counts_of(6000)


def test_what_left_before_the_first_snapshot_hides_no_record_from_a_source_of_other_times(
    scratch: Scratch,
) -> None:
    """Results that are all alike: by their bytes nobody could tell that other records came to them."""
    alike = """\
import flamestream as fs

graph = fs.Graph("alike")
graph.source("numbers", lambda _: "n").sink("counts", key=lambda _: 0)
"""
    numbers = "sources: {numbers: {generator: {count: 6000, rate: 50}}}"
    scratch.job(alike, numbers, OUT, *UNSAVED)
    killed(scratch, delivered=40)
    scratch.job(alike, numbers.replace(", rate: 50", ""), OUT, *UNSAVED)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.JOB_FAILED
    scratch.job(alike, numbers.replace("50", "5000"), OUT, *UNSAVED)
    assert scratch.type("run", "job.yaml", "--no-spark").code == ExitCode.OK
    assert counted(scratch).total() == 6000


@pytest.mark.slow  # the simulator says at each push what may go
def test_a_source_goes_once_nothing_of_it_is_left(scratch: Scratch) -> None:
    said = [b"s0", b"s1"] * 20
    lines = f"lines: {{socket: {{address: '{produced(said)}'}}}}"
    grows, journal = (
        "grows: {files: {path: grows, follow: true, records: lines}}",
        "journal: {folder: journal}",
    )

    def drained(sources: dict[str, str], delivered: int, *options: str) -> None:
        graph_of(scratch, sources, journal, decode="None")
        assert "drained" in stopped(scratch, "--drain", *options, delivered=delivered)

    scratch.write("grows/one.txt", "g\n" * 10)
    drained({"lines": lines, "grows": grows}, 50)
    scratch.write("grows/two.txt", "g\n" * 5)
    drained({"grows": grows}, 55, "--changed")
    said += [b"s0"] * 5
    drained({"grows": grows, "lines": lines}, 60, "--changed")
    assert counted(scratch) == counts_of(25, 20, 15), "it goes on where it was"
