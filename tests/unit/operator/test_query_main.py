"""What a pod beside a job says of the last epoch's states."""

import json
from pathlib import Path
from typing import Any

import pytest

from flamestream.audit.committed import LastCommit
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest import parse_job
from flamestream.live.port import answer_in, page_in
from flamestream.node.queries.committed import NOTHING
from flamestream_operator.tools import query_main
from support.runs.past_run import own_modules
from unit.operator.test_audit_main import ACCESS, CONFIG

APPLICATION = """
import flamestream as fs
graph = fs.Graph("counts")
graph.source("numbers").reduce(name="seen", key=fs.item, combine=fs.count()).sink("out")
"""
SPEC = {
    "application": {"file": "counts.py", "graph": "graph"},
    "sources": {"numbers": {"generator": {"count": 10}}},
    "sinks": {"out": {"files": {"path": "out"}}},
    "workers": {"replicas": 1},
    "checkpoint": {"interval": "1s", "store": "snapshots"},
}
HEAD = {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob", "metadata": {"name": "j"}}


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs it in a pod beside a job that has committed nothing yet: its exit code, and what it prints."""
    (tmp_path / "counts.py").write_text(APPLICATION)
    job = parse_job(json.dumps({**HEAD, "spec": SPEC}), str(tmp_path / "job.json"))
    asked: list[tuple[object, ...]] = []

    def there(*arguments: object) -> LastCommit:
        asked.append(arguments)
        return LastCommit(None)

    monkeypatch.setattr(query_main, "read_job", lambda: job)
    monkeypatch.setattr(
        query_main, "read_any_driver_config", lambda: type("Config", (), {"job": CONFIG["job"]})
    )
    monkeypatch.setattr(query_main, "read_zookeeper", lambda: ACCESS)
    monkeypatch.setattr(query_main, "committed_there", there)

    def run(*arguments: str) -> tuple[int, bytes]:
        with own_modules():
            code = query_main.main(list(arguments))
        assert asked in ([], [(ACCESS, "default.words", job.store)])
        return code, capsys.readouterr().out.encode()

    return run


def test_its_answer_is_read_as_that_of_the_port(said: Any) -> None:
    code, text = said("0", "seen[7]", "seen[8]")
    assert (code, answer_in(text, "committed").states) == (0, (NOTHING, NOTHING))


def test_a_page_is_read_as_one_of_the_port(said: Any) -> None:
    code, text = said("0", "--page", "seen", "10", "")
    page = page_in(text, "committed")
    assert (code, page.rows, page.cursor, page.at) == (0, (), "", "committed")


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("0", "--page", "sen", "10", ""), ExitCode.USAGE, "keeps nothing named 'sen'"),
        (("9223372036854775807", "--page", "seen", "10", ""), ExitCode.UNAVAILABLE, "behind the next one"),
        (("0", "sen[7]"), ExitCode.USAGE, "keeps nothing named 'sen'"),
        (("0", "seen"), ExitCode.USAGE, "is no row"),
        (("9223372036854775807", "seen[7]"), ExitCode.UNAVAILABLE, "ask again behind the next one"),
    ],
)
def test_what_cannot_be_answered_is_an_error_with_the_command_s_exit_code(
    said: Any, arguments: tuple[str, ...], code: ExitCode, reason: str
) -> None:
    got, text = said(*arguments)
    assert (got, reason in json.loads(text)["error"]) == (code, True), text
