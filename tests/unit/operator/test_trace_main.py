"""The answer of a pod that traces: what `flamestream trace` says of the same output, bounded, or why there is none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream_operator.tools import trace_main
from support.runs.past_run import going_on, own_modules
from unit.operator.test_audit_main import Pod


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    with own_modules():
        yield Pod(tmp_path, monkeypatch, trace_main)


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_it_says_of_which_record_the_newest_items_are(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    past = going_on()
    pod.audits(past)
    assert trace_main.main(["--limit=3", "--", ""]) == 0
    found = said(capsys)["traced"]
    assert len(found) == 3 and {each["source"] for each in found} == {"lines"}
    for each in found:
        assert each["record"] == past.lines[each["offset"]]
        assert each["released_after"] <= each["written"] <= each["released_before"]


def test_a_text_is_no_option(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    pod.audits(going_on())
    assert trace_main.main(["--sink=", "--limit=3", "--", "--sink=nowhere"]) == 0
    assert said(capsys) == {"traced": []}


def test_a_sink_that_is_not_there_is_an_error_that_says_which_are(
    pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.audits(going_on())
    assert trace_main.main(["--sink=nowhere", "--", "x"]) == 0
    error = said(capsys)["error"]
    assert (error["category"], "counts" in error["message"]) == ("user", True)


def test_an_answer_is_bounded_and_has_the_newest(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.audits(going_on())
    trace_main.main(["--limit=9", "--", ""])
    whole = said(capsys)["traced"]
    monkeypatch.setattr(trace_main, "MOST_BYTES", len(json.dumps(whole)) // 2)
    trace_main.main(["--limit=9", "--", ""])
    cut = [{**each, "released_before": 0} for each in said(capsys)["traced"]]
    assert 0 < len(cut) < len(whole)
    assert cut == [{**each, "released_before": 0} for each in whole[-len(cut) :]]
