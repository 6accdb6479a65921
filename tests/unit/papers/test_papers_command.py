"""`flamestream papers`: what it prints, writes and refuses."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flamestream.cli.main import main
from flamestream.job.exit_codes import ExitCode
from flamestream.papers import experiments
from flamestream.papers.report import Report, Table


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["papers", *map(str, arguments)])
    return int(caught.value.code or 0)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    """The only experiment that there is, whose claim is not so."""
    table = Table("Letters", ("first", "second"), (("a", "<b>"), ("cc", "d")))
    made = Report("A subject", "its seed", (table,), "a finding", holds=False)
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"one": experiments.Experiment("a line", lambda: made)})
    return made


def test_without_a_name_it_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(experiments.EXPERIMENTS)


@pytest.mark.parametrize(
    ("figure", "of"), [("fig5", 5), ("fig6", 6), ("fig7", 7), ("fig9", 9), ("poster7", 7)]
)
def test_a_figure_of_the_papers_is_a_name_too(
    figure: str, of: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(figure) == ExitCode.OK
    first = capsys.readouterr().out.splitlines()[0]
    paper = "poster" if figure.startswith("poster") else "EDBT"
    assert paper in first and str(of) in first.partition("Fig. ")[2]


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out).keys() == experiments.EXPERIMENTS.keys()


def test_a_claim_that_is_not_so_is_a_difference(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("one") == ExitCode.DIFFERENCE
    said = capsys.readouterr().out
    assert said == report.text + "\n"
    assert "NOT FOUND: a finding" in said


def test_a_report_as_json_has_its_cells(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    run("one", "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["tables"][0]["rows"] == [["a", "<b>"], ["cc", "d"]]
    assert said["holds"] is False


def test_the_picture_has_every_line(report: Report, tmp_path: Path) -> None:
    run("one", "--svg", tmp_path / "one.svg")
    texts = ElementTree.parse(tmp_path / "one.svg").iter("{http://www.w3.org/2000/svg}text")
    assert [text.text or "" for text in texts] == report.text.splitlines()


@pytest.mark.parametrize(
    "arguments", [["figure99"], ["--svg", "x.svg"], ["one", "--svg", "no/such/folder/x"]]
)
def test_what_cannot_be_shown_is_refused(
    report: Report, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == ExitCode.USAGE
    assert capsys.readouterr().err
