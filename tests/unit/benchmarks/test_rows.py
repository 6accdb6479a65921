"""Rows of a figure: each is kept before the next is measured, and a table is of all that are there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import rows


def told(file: Path, *options: str, measured: int = 2) -> None:
    """A figure of so many rows; to measure one more fails."""

    def each() -> Iterator[dict[str, Any]]:
        for number in range(measured):
            yield {"number": number}
        raise AssertionError("one too many")

    given = rows.parser_of("", file).parse_args(options)
    rows.tell(given, each(), lambda there: f"the table of {[row['number'] for row in there]}")


def test_a_run_that_dies_keeps_what_it_has_measured(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="one too many"):
        told(tmp_path / "rows.jsonl")
    kept = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in kept] == [0, 1]


def test_a_table_measures_nothing_and_is_of_all_that_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(tmp_path / "rows.jsonl", "--table", measured=0)
    assert capsys.readouterr().out == "the table of []\n"
    rows.keep(tmp_path / "rows.jsonl", {"number": 7})
    told(tmp_path / "rows.jsonl", "--table", measured=0)
    assert capsys.readouterr().out == "the table of [7]\n"


def test_older_results_are_set_aside_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text("old")
    rows.set_aside(file)
    assert not file.exists()
    assert [other.read_text() for other in tmp_path.iterdir()] == ["old"]
