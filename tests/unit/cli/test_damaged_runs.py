"""The audit of the audit: every damage of a past run is found, and named by the right count in the right column."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream.adapters import sinks
from flamestream.adapters.journal_file import head, record
from flamestream.cli.audit import Report, audited, sentence
from flamestream.model.ids import SequenceNumber
from flamestream.model.time import START
from flamestream.testing.audit import Verdict
from support.damage import DAMAGES, OUTPUT, RIGHT, Damage
from support.past_run import finished, going_on, own_modules

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
    return {"rolling": {"path": str(folder / "out"), "format": "jsonl", "segmentSeconds": 0, "rollSeconds": 0.001}}


def looked_at(damage: Damage, folder: Path, sink: dict[str, Any]) -> Report:
    past = damage.past()
    return audited(past.leave(folder, sink), past.last_commit())


def named(table: list[Damage]) -> Any:
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


def test_a_result_that_comes_while_the_sinks_are_read_is_not_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past = going_on()
    checked, read = past.leave(tmp_path, files(tmp_path)), sinks.read
    journal = tmp_path / "journal" / "front-0" / "attempt-00000001-0.log"
    journal.write_bytes(head(START) + b"".join(map(record, past.entries[:8])))

    def reading(*arguments: Any) -> Iterator[sinks.Item]:
        """The job goes on meanwhile: a run enters, and its results are there as soon as it is in the journal."""
        yield from read(*arguments)
        journal.write_bytes(head(START) + b"".join(map(record, past.entries)))
        for item in finished().given[8]:
            yield item.meta, item.slot, SequenceNumber(99), item.payload

    monkeypatch.setattr(sinks, "read", reading)
    report = audited(checked, past.last_commit())
    assert report.clean and report.verdict.delivered == 36
