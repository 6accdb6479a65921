"""The audit of the audit: every damage of a past run is found, and named by the right count in the right
column."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from flamestream.audit.job_audit import audited
from flamestream.audit.report import Report, sentence
from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Bundle
from flamestream.job.validation import checked_job
from flamestream.journal.file import head, record
from flamestream.model.errors import Corrupt, StoreUnavailable, UserError
from flamestream.model.ids import SequenceNumber
from flamestream.model.meta import Meta
from flamestream.model.payload import decode_items
from flamestream.model.time import START
from flamestream.testing.audit import Verdict
from flamestream.testing.consumer import ConsumerServer
from support.runs.damage import BOUNDS, DAMAGES, INPUT, OUTPUT, RIGHT, Damage
from support.runs.past_run import SINK, deliver, finished, going_on, own_modules, run_time

COLUMNS = {
    "lost": "{} lost",
    "not_due": "{} results not due yet",
    "doubled": "{} doubled",
    "foreign": "{} that the reference does not have",
    "misplaced": "{} in a wrong slot",
    "reordered": "{} reordered",
}
"""How a verdict says them."""


@pytest.fixture(autouse=True)
def application() -> Iterator[None]:
    with own_modules():
        yield


def findings(report: Report) -> dict[str, int]:
    """Every count that is not 0."""
    verdict: Verdict = report.verdict
    counts = {name: getattr(verdict, name) for name in COLUMNS}
    counts |= {name: sum(getattr(each, name) for each in report.input) for name in ("missing", "unexpected")}
    return {name: count for name, count in counts.items() if count}


def files(folder: Path) -> dict[str, Any]:
    return {"files": {"path": str(folder / "out"), "fsync": False}}


def segments(folder: Path) -> dict[str, Any]:
    return {"rolling": {"path": str(folder / "out"), "segmentSeconds": 0}}


def parts(folder: Path) -> dict[str, Any]:
    return {
        "rolling": {"path": str(folder / "out"), "format": "jsonl", "segmentSeconds": 0, "rollSeconds": 0.001}
    }


def looked_at(damage: Damage, folder: Path, sink: dict[str, Any]) -> Report:
    past = damage.past()
    return audited(past.leave(folder, sink), past.last_commit())


def named(table: list[Damage]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("damage", table, ids=[damage.name.replace(" ", "-") for damage in table])


@named(DAMAGES)
def test_a_damage_is_found_and_named(damage: Damage, tmp_path: Path) -> None:
    report = looked_at(damage, tmp_path, files(tmp_path))
    assert findings(report) == damage.says
    assert not report.clean and not report.kept and not report.empty
    said = sentence(report).splitlines()
    for column in COLUMNS.keys() & damage.says.keys():
        assert COLUMNS[column].format(damage.says[column]) in said[0].split(", "), column
    assert ("input: lines: " in sentence(report)) == bool({"missing", "unexpected"} & damage.says.keys())
    assert said[-1].startswith("first difference: ") != report.verdict.clean
    assert report.first_difference


@named(RIGHT)
def test_what_is_right_is_clean(damage: Damage, tmp_path: Path) -> None:
    report = looked_at(damage, tmp_path, files(tmp_path))
    assert findings(report) == damage.says
    assert report.clean and report.kept and not report.first_difference


@named(OUTPUT)
@pytest.mark.parametrize("sink", [segments, parts])
def test_a_damage_is_found_at_a_rolling_sink(damage: Damage, sink: Any, tmp_path: Path) -> None:
    assert findings(looked_at(damage, tmp_path, sink(tmp_path))) == damage.says


@named(OUTPUT)
def test_a_damage_is_found_in_what_the_far_end_of_a_socket_has_kept(
    damage: Damage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    had: list[Bundle] = []

    def kept(*_: Any) -> Iterator[sinks.Item]:
        """As it came: nobody sorts it."""
        for bundle in had:
            for meta, value in decode_items(bundle.items):
                yield Meta(meta), bundle.slot, bundle.sequence, value

    monkeypatch.setattr(sinks, "read", kept)
    with ConsumerServer(had.extend) as server:
        assert findings(looked_at(damage, tmp_path, {"socket": {"address": server.address}})) == damage.says


def test_a_result_that_comes_while_the_sinks_are_read_is_not_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = going_on()
    checked, read = past.leave(tmp_path, files(tmp_path)), sinks.read
    journal = tmp_path / "journal" / "front-0" / "attempt-00000001-0.log"
    journal.write_bytes(head(START) + b"".join(map(record, past.entries[:8])))

    def reading(*arguments: Any) -> Iterator[sinks.Item]:
        """The job goes on meanwhile: a run enters, and its results are there as soon as it is in the
        journal."""
        yield from read(*arguments)
        journal.write_bytes(head(START) + b"".join(map(record, past.entries)))
        for item in finished().given[8]:
            yield item.meta, item.slot, SequenceNumber(99), item.payload

    monkeypatch.setattr(sinks, "read", reading)
    report = audited(checked, past.last_commit())
    assert report.clean and report.verdict.delivered == 36


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("completed", "bounds: all results had to be there, since the job has completed"),
        (
            "going on",
            f"bounds: results had to be there up to epoch 7 (cut {run_time(6)}); the job has not ended",
        ),
        (
            "never committed, nothing out",
            "bounds: no results had to be there, since no epoch is committed; the job has not ended",
        ),
        (
            "drained",
            f"bounds: results had to be there up to epoch 7 (cut {run_time(10)}); the job was drained",
        ),
        (
            "two phases, held output has not left",
            f"epoch 7 (cut {run_time(6)}), but for 8 that it holds; the job has not ended",
        ),
        ("completed", "input: lines (40) read again from the source"),
        ("completed, payloads in the journal", "input: lines (40) known from the journal alone"),
        ("nothing entered", "empty: no records have entered, and no results were delivered"),
    ],
)
def test_a_verdict_names_its_bounds_and_its_input(name: str, says: str, tmp_path: Path) -> None:
    damage = next(each for each in RIGHT if each.name == name)
    assert says in sentence(looked_at(damage, tmp_path, files(tmp_path)))


# --- what is kept is damaged: of one kind of place each -----------------------------------------------------


def log_of(folder: Path, worker: str) -> Path:
    return next((folder / "out").glob(f"attempt-*-{worker}-*.log"))


def torn(folder: Path) -> None:
    """As a crash leaves the last file: the last call of a worker is not whole."""
    log = log_of(folder, "w0")
    os.truncate(log, log.stat().st_size - 1)


def without_log(folder: Path) -> None:
    log_of(folder, "w0").unlink()


def with_other_bytes(folder: Path) -> None:
    log = log_of(folder, "w0")
    data = bytearray(log.read_bytes())
    data[12] ^= 1
    log.write_bytes(data)


def of_another_sink(folder: Path) -> None:
    shutil.rmtree(folder / "out")
    deliver(files(folder), finished().given, job="another")


def torn_part(folder: Path) -> None:
    part = max((folder / "out").glob("*.jsonl"))
    os.truncate(part, part.stat().st_size - 5)


def without_part(folder: Path) -> None:
    max((folder / "out").glob("*.jsonl")).unlink()


def torn_journal(folder: Path) -> None:
    """The last entry is not whole, as a crash leaves it: but this one was committed."""
    log = folder / "journal" / "front-0" / "attempt-00000001-0.log"
    os.truncate(log, log.stat().st_size - 1)


def journal_with_other_bytes(folder: Path) -> None:
    log = folder / "journal" / "front-0" / "attempt-00000001-0.log"
    data = bytearray(log.read_bytes())
    data[60] ^= 1
    log.write_bytes(data)


def without_journal(folder: Path) -> None:
    shutil.rmtree(folder / "journal")


def source_without_a_line(folder: Path) -> None:
    file = folder / "in" / "lines.txt"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


def without_source(folder: Path) -> None:
    (folder / "in" / "lines.txt").unlink()


STORED: Final = [
    (torn, files, {"lost": 3}),
    (without_log, files, {"lost": 24}),
    (torn_journal, files, {"missing": 4, "foreign": 4}),
]
UNREADABLE: Final = [
    (with_other_bytes, files, Corrupt, "the record at byte .* is damaged"),
    (of_another_sink, files, UserError, "holds the output of job 'another'"),
    (torn_part, parts, Corrupt, "is damaged"),
    (without_part, parts, Corrupt, "is missing"),
    (journal_with_other_bytes, files, Corrupt, "journal .* is damaged at byte"),
    (source_without_a_line, files, Corrupt, "records 36 to 39 of 'lines.txt' cannot be read again"),
    (without_source, files, Corrupt, "the file is gone"),
    (without_journal, files, StoreUnavailable, "cannot open the store .*journal"),
]


@pytest.mark.parametrize(("damage", "sink", "says"), STORED)
def test_what_is_torn_or_gone_is_counted(
    damage: Any, sink: Any, says: dict[str, int], tmp_path: Path
) -> None:
    past = finished()
    checked = past.leave(tmp_path, sink(tmp_path))
    damage(tmp_path)
    report = audited(checked, past.last_commit())
    assert findings(report) == says and not report.kept


@pytest.mark.parametrize(("damage", "sink", "error", "says"), UNREADABLE)
def test_what_cannot_be_read_is_an_error_that_names_it(
    damage: Any, sink: Any, error: Any, says: str, tmp_path: Path
) -> None:
    past = finished()
    checked = past.leave(tmp_path, sink(tmp_path))
    damage(tmp_path)
    with pytest.raises(error, match=says):
        audited(checked, past.last_commit())


def test_a_sink_that_nobody_reads_back_is_refused_with_the_reason(tmp_path: Path) -> None:
    past = finished()
    past.given.clear()
    checked = past.leave(tmp_path, {"files": {"path": str(tmp_path / "out")}})
    unread = replace(checked.job.spec, sinks={SINK: {"socket": {"address": "127.0.0.1:1"}}})
    with pytest.raises(UserError, match="can be read back; what others got is with whom they delivered to"):
        audited(checked_job(replace(checked.job, spec=unread)), past.last_commit())


def test_the_documented_numbers_are_those_of_the_tables() -> None:
    text = (Path(__file__).parents[3] / "docs" / "explanation" / "reliability.md").read_text()
    rows = text.partition("<!-- damaged runs -->")[2].partition("<!-- end -->")[0].strip().splitlines()[2:]
    stored = len(STORED) + len(UNREADABLE)
    assert [int(row.split(" | ")[1]) for row in rows] == [
        len(OUTPUT),
        len(INPUT),
        len(BOUNDS),
        stored,
        len(RIGHT),
    ]
    assert len(DAMAGES) + stored >= 40
