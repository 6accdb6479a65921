"""The verdict of an audit's pod: from the job's ZooKeeper, store and sinks alone, with its bounds."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from flamestream.audit import timeline
from flamestream.audit.committed import LastCommit
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.job.application_code import code_of
from flamestream.model.errors import ManifestError
from flamestream.model.time import START
from flamestream.spark.streaming.driver_config import read_any_driver_config, read_zookeeper
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.tools import audit_main
from support.runs.changes import nothing, only, without_runs
from support.runs.past_run import APPLICATION, PastRun, asked_here, going_on, own_modules, run_time

CONFIG = {
    "job": "default.words", "coordinator": "c:1", "tasks": 2, "image": "i", "imagePullPolicy": "Always",
    "podNamePrefix": "p",
}  # fmt: skip
ACCESS = ZooKeeperAccess("z:2181", "default.words:secret", "an authority")


class Pod:
    """What the pod sees."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, tool: ModuleType = audit_main) -> None:
        self.folder, self.tool = folder, tool
        self.asked: list[tuple[object, ...]] = []
        self._patch = monkeypatch.setattr
        (folder / "driver-b.json").write_text(json.dumps(CONFIG))
        for name, text in msgspec.to_builtins(ACCESS).items():
            (folder / name).write_text(text)

    def audits(self, past: PastRun) -> None:
        """It is a pod beside the job that has left this."""
        job = past.leave(
            self.folder, {"files": {"path": str(self.folder / "out"), "fsync": False}}, job="default.words"
        )

        def there(*arguments: object) -> LastCommit:
            self.asked.append(arguments)
            return past.last_commit()

        self._patch(self.tool, "read_any_driver_config", lambda: read_any_driver_config(self.folder))
        self._patch(self.tool, "read_job", lambda: job.job)
        self._patch(self.tool, "read_zookeeper", lambda: read_zookeeper(self.folder))
        self._patch(self.tool, "committed_there", there)
        self._patch(audit_main, "MESSAGE", self.folder / "termination-log")


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    with own_modules():
        yield Pod(tmp_path, monkeypatch)


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_clean_verdict_names_its_bounds(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    past = going_on()
    pod.audits(past)
    assert audit_main.main() == 0
    verdict = said(capsys)
    assert (verdict["clean"], verdict["delivered"], verdict["notDue"], verdict["epoch"]) == (True, 32, 8, 7)
    assert (
        "up to epoch 7" in verdict["bounds"]
        and verdict["input"] == "input: lines (40) read again from the source"
    )
    # once before the sinks are read, and once behind them
    assert pod.asked == [(ACCESS, "default.words", str(pod.folder / "snapshots"), "")] * 2


@pytest.mark.parametrize(
    ("change", "column", "count"),
    [(only(slice(0)), "lost", 24), (without_runs([2], given=True), "missingInput", 4), (nothing, "lost", 0)],
)
def test_exit_code_3_and_counts_tell_of_a_difference(
    pod: Pod, change: Any, column: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    past = going_on(delivered=10)
    change(past)
    pod.audits(past)
    assert audit_main.main() == (3 if count else 0)
    verdict = said(capsys)
    assert verdict[column] == count and bool(verdict["firstDifference"]) == bool(count)


def test_what_cannot_be_audited_is_an_error_and_no_verdict(
    pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    past = going_on()
    pod.audits(past)
    (pod.folder / "in" / "lines.txt").unlink()
    assert audit_main.main() == 3
    assert "clean" not in (verdict := said(capsys)) and "the file is gone" in verdict["error"]


def test_code_that_did_not_begin_the_job_is_audited_only_if_the_user_lets_it(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    past = going_on()
    pod.audits(past)
    last = past.last_commit()
    assert last.index is not None
    manifest = msgspec.structs.replace(last.index, code=(CodeSpan(START, "of-then"),))
    monkeypatch.setattr(audit_main, "committed_there", lambda *_: replace(last, index=manifest))
    assert audit_main.main() == 3
    assert "audit with --changed" in said(capsys)["error"]
    monkeypatch.setattr(sys, "argv", ["audit_main", "--changed"])
    assert audit_main.main() == 0
    assert "all was interpreted with the code of now" in said(capsys)["bounds"]


def test_each_result_is_judged_by_the_code_that_made_it_if_the_pod_has_a_copy(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    past = going_on()
    pod.audits(past)
    copy = pod.folder / "earlier" / "words-app-0123456789ab"
    copy.mkdir(parents=True)
    before = copy / "words_application.py"
    before.write_text(f"{APPLICATION}\n# before\n")
    last = past.last_commit()
    assert last.index is not None
    spans = (CodeSpan(START, code_of(before)), CodeSpan(run_time(5), code_of(pod.folder / before.name)))
    index = msgspec.structs.replace(last.index, code=spans)
    monkeypatch.setattr(audit_main, "committed_there", lambda *_: replace(last, index=index))
    monkeypatch.setattr(audit_main, "EARLIER", pod.folder / "earlier")
    monkeypatch.setattr(timeline, "asked", asked_here)
    assert audit_main.main() == 0
    verdict = said(capsys)
    assert [(each["since"], each["digest"]) for each in verdict["codes"]] == [
        (each.since, each.digest) for each in spans
    ]
    assert sum(each["results"] for each in verdict["codes"]) == verdict["delivered"] + verdict["notDue"]
    assert "each result was interpreted with the code that made it" in verdict["bounds"]


def judged(verdict: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(row["definition"], row["printed"], row["strict"]) for row in verdict["definitions"]]


FOLLOWS = [(7, "follows", "follows"), (8, "follows", "follows")]


def test_the_formal_verdict_is_given_where_it_is_asked_for(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.audits(going_on())
    assert audit_main.main() == 0
    assert said(capsys)["definitions"] == []
    monkeypatch.setattr(sys, "argv", ["audit_main", "--definitions"])
    assert audit_main.main() == 0
    rows = judged(verdict := said(capsys))
    assert rows[:4] == [(5, "holds", ""), (6, "holds", "holds"), *FOLLOWS]
    assert [number for number, _, _ in rows] == [5, 6, 7, 8, 9, 10]
    assert verdict["definitions"][0]["reason"] == "for 32 of 32 outputs"


def test_output_that_is_lost_breaks_the_strict_definition_alone(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    past = going_on(delivered=10)
    only(slice(0))(past)
    pod.audits(past)
    monkeypatch.setattr(sys, "argv", ["audit_main", "--definitions"])
    assert audit_main.main() == 3
    six = said(capsys)["definitions"][1]
    assert (six["printed"], six["strict"]) == ("holds", "broken") and "24 lost" in six["reason"]


def test_a_verdict_with_long_reasons_fits_into_a_pods_last_words() -> None:
    row = {
        "definition": 6,
        "name": "exactly-once",
        "printed": "broken",
        "strict": "",
        "reason": "\U0001f600" * 200,
    }
    found = {"clean": False, "firstDifference": "\U0001f600" * 1000, "definitions": [row] * 6}
    text = audit_main.message(found)
    assert len(text.encode()) <= 4096 and len(json.loads(text)["definitions"]) == 6


def test_a_folder_of_no_driver_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"there is no driver-\*\.json"):
        read_any_driver_config(tmp_path)
