"""A job whose code was changed while it ran, as its author meets it: `audit` judges each result by the code
that made it, and `ticks` lists which that was."""

import json
import os
import signal
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from flamestream.audit import span_process
from flamestream.audit.code_span import SpanAnswer, SpanRequest
from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.log import Record, encode_record, scan
from flamestream.job.application_code import code_of
from flamestream.job.exit_codes import ExitCode
from flamestream.model.errors import UserError
from flamestream.model.ids import Fence
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payload import decode_items, encode_items
from flamestream.model.time import END, START
from support.runs.scratch import SMALL, Scratch

APPLICATION = """\
import flamestream as fs
from rates import MIGRATE, RATE, VERSION, Priced

def priced(n):
    return Priced(n, n * 10 + RATE)

graph = fs.Graph("sums")
prices = graph.source("numbers").map(priced)
prices.map(lambda each: each.price).sink("prices")
prices.reduce(
    name="sums", key=lambda each: each.number % 7, initial=lambda: Priced(0, 0), version=VERSION, migrate=MIGRATE,
    combine=lambda total, each: Priced(each.number, total.price + each.price),
).sink("sums", key=lambda total: total.price % 5)
prices.group(3, key=lambda each: each.number % 5).map(lambda last: sum(each.price for each in last)).sink("last")
"""
RATES = """\
import flamestream as fs

RATE = {rate}
VERSION, MIGRATE = 1, {{}}

@fs.event
class Priced:
    number: int
    price: int
"""
SECOND = "\nVERSION, MIGRATE = 2, {1: lambda total: Priced(total.number, -total.price)}\n"
MORE = f"    tax: int = 0\n{SECOND}"
SINKS = (
    "sinks: {prices: {files: {path: prices, fsync: false}}, sums: {files: {path: sums, fsync: false}}, "
    "last: {files: {path: last, fsync: false}}}"
)


def upgraded(scratch: Scratch, rate: int, more: str = "") -> None:
    scratch.write("rates.py", RATES.format(rate=rate) + more)
    said = scratch.type("upgrade", "job.yaml")
    assert said.code == ExitCode.OK, said.text


@pytest.mark.slow  # a minute: the page about changing code audits such a job at each push
def test_each_result_is_judged_by_the_code_that_made_it(scratch: Scratch) -> None:
    scratch.job(APPLICATION, "sources: {numbers: {generator: {count: 1000000, rate: 200}}}", SINKS, *SMALL)
    scratch.write("rates.py", RATES.format(rate=1))
    run = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
    scratch.goes_on(within=120)
    upgraded(scratch, 2, MORE)
    scratch.goes_on(within=120)
    workers = (scratch.path / ".flamestream" / "job" / "workers").glob("*.json")
    newest = max(workers, key=lambda file: file.stat().st_mtime)  # of those that the old code had, none lives
    os.kill(json.loads(newest.read_text())["pid"], signal.SIGKILL)
    scratch.goes_on(within=120)
    upgraded(scratch, 3, SECOND)
    scratch.goes_on(within=120)
    assert [each["runs"] for each in listed(scratch)] == [False, False, True]
    run.send_signal(signal.SIGINT)
    assert "drained" in run.communicate(timeout=60)[0]

    ticks = listed(scratch)
    cuts = [each["cut"] for each in ticks]
    assert cuts[0] == 0 and cuts == sorted(set(cuts)) and len(cuts) == 3
    assert all(each["kept"] and not each["runs"] for each in ticks)

    report = judged(scratch, ExitCode.OK)
    assert report["clean"] and report["verdict"]["delivered"] == 3 * report["records"]
    assert [(each["since"], each["digest"]) for each in report["codes"]] == [
        (each["cut"], each["code"]) for each in ticks
    ]
    assert all(each["results"] for each in report["codes"])
    assert sum(each["results"] for each in report["codes"]) == report["verdict"]["delivered"]

    altered(scratch.path / "prices", cuts[1], -1, above=True)
    altered(scratch.path / "prices", cuts[2], 1, above=False)
    found = judged(scratch, ExitCode.DIFFERENCE)["verdict"]
    assert (found["foreign"], found["lost"]) == (2, 2)


def listed(scratch: Scratch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(scratch.type("ticks", "job.yaml", "--json").text)
    return found


def judged(scratch: Scratch, code: ExitCode) -> dict[str, Any]:
    said = scratch.type("audit", "job.yaml", "--json")
    assert said.code == code, said.text
    found: dict[str, Any] = json.loads(said.text)
    return found


def altered(folder: Path, cut: int, other: int, *, above: bool) -> None:
    """The result that is next to a cut becomes what other code makes of it, in the sink's files."""
    found = [
        (meta, log, record) for log, record, meta in records(folder) if (time_of_meta(meta) >= cut) == above
    ]
    meta, log, record = (min if above else max)(found, key=lambda each: each[0])
    bundles = [
        Bundle(slot, sequence, t_last, encode_items([
            (Meta(each), value + other if each == meta else value) for each, value in decode_items(items)
        ]))
        for slot, sequence, t_last, items in record.delivery.bundles
    ]  # fmt: skip
    before = log.read_bytes()
    fence, number = record.delivery.fence, record.delivery.number
    changed = encode_record(Fence(*fence), number, bundles, record.delivery.written)
    assert len(changed) == record.end - record.start, "it fits in its place"
    log.write_bytes(before[: record.start] + changed + before[record.end :])


def records(folder: Path) -> Iterator[tuple[Path, Record, Meta]]:
    """Every result in a sink's logs, with its place."""
    for log in sorted(folder.glob("*.log")):
        with FileIO(log) as file:
            for record in scan(file, log.name):
                for *_, items in record.delivery.bundles:
                    for meta, _ in decode_items(items):
                        yield log, record, Meta(meta)


def asked(folder: Path, application: str) -> SpanAnswer:
    """What a process of its own says of an application that has nothing to interpret."""
    file = folder / "app.py"
    file.write_text(application)
    return span_process.asked(
        SpanRequest(
            file=str(file), code=code_of(file), graph="graph", py_files=(), productions=False, calls={}, fronts=(),
            slots=16, dead_letter=None, begin=START, end=END,
        )
    )  # fmt: skip


def test_what_an_application_prints_is_no_part_of_its_answer(tmp_path: Path) -> None:
    application = (
        'import flamestream as fs\nprint("hello")\ngraph = fs.Graph("g")\ngraph.source("s").sink("t")\n'
    )
    assert asked(tmp_path, application).results == {"t": []}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py"], "it leaves nothing behind"


def test_an_application_that_does_not_load_is_named_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"with code [0-9a-f]{12}: .*app.py:1: the application does not load"):
        asked(tmp_path, "1 / 0\n")


def test_an_application_that_ends_its_process_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ended with exit code 9 and said: farewell"):
        asked(tmp_path, 'import os, sys\nprint("farewell", flush=True)\nos._exit(9)\n')
