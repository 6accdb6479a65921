"""Marks: what a coordinator's log says has happened."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.core.coordinator.changes.upgrade import TURNED
from flamestream.node.tail import Tail
from flamestream.ui.log_files import Wanted, merged
from flamestream.ui.marks import Mark, mark_of, mark_of_verdict, without_repeats
from support.runs.shown_job import LOG_LINES


def line(**fields: Any) -> bytes:
    return json.dumps({"at": "2023-11-14T22:13:20.000+00:00", "level": "info", **fields}).encode()


def test_the_log_of_a_kill_makes_its_marks() -> None:
    found = [mark_of(each.encode()) for each in LOG_LINES]
    assert [(each.kind, each.text) for each in found if each] == [
        ("coordinator", "a coordinator began"),
        ("start", "start"),
        ("lost", "closed by the peer"),
        ("recovery", "lost w0.0"),
    ]
    last = found[-1]
    assert last is not None
    assert (last.duration_ms, list(last.steps_ms)) == (10.0, ["decide", "record", "open", "seal"])


def test_an_attempt_with_other_code_is_told_from_a_recovery() -> None:
    found = mark_of(line(event="phase", phase="running", attempt=3, cause=TURNED, steps_us={"record": 1}))
    assert found is not None and found.kind == "code"


def test_a_verdict_makes_a_mark_when_it_was_given() -> None:
    counts = {"delivered": 1234, "lost": 1, "doubled": 0, "reordered": 0}
    audit = mark_of_verdict("audit", 1_700_000_000_500_000, {"kept": False, "verdict": counts})
    assert audit == Mark(
        at="2023-11-14T22:13:20.500+00:00",
        kind="audit",
        text="differs: 1,234 results, 1 lost, 0 doubled, 0 reordered",
    )
    drill = mark_of_verdict("drill", 0, {"phase": "Passed", "message": "all of it"})
    assert drill is not None and (drill.kind, drill.text) == ("drill", "Passed: all of it")
    assert mark_of_verdict("audit", 0, {"error": {"message": "no"}}) is None
    assert mark_of_verdict("drill", 0, None) is None


def test_the_end_says_why() -> None:
    found = mark_of(line(event="job finished", outcome="failed", message_="division by zero"))
    assert found == Mark(at="2023-11-14T22:13:20.000+00:00", kind="end", text="failed: division by zero")


@pytest.mark.parametrize(
    "text",
    [b"", b'{"event": "phase"', b'{"event": "phase", "at": 3}', b'[1, "phase"]', line(event="worker says")],
)
def test_other_lines_make_none(text: bytes) -> None:
    assert mark_of(text) is None


def test_an_attempt_that_waits_and_goes_on_is_one_recovery() -> None:
    one = Mark(at="1", kind="recovery", text="lost w", attempt=2)
    again = Mark(at="2", kind="recovery", text="lost w", attempt=2)
    lost = Mark(at="2", kind="lost", text="closed")
    assert without_repeats([one, lost, again, lost]) == [one, lost, lost]


def test_the_end_of_a_replay_is_a_step_of_its_recovery_and_not_in_its_duration() -> None:
    recovered = mark_of(LOG_LINES[-1].encode())
    assert recovered is not None
    steps = {**recovered.steps_ms, "replay": 90.0}
    told = {name: int(took * 1000) for name, took in steps.items()}
    ended = mark_of(line(event="replayed", phase="running", attempt=2, cause="lost w0.0", steps_us=told))
    assert ended is not None and ended.duration_ms == 10
    assert without_repeats([recovered, ended]) == [msgspec.structs.replace(recovered, steps_ms=steps)]


# --- the files ------------------------------------------------------------------------------------------------


def test_a_tail_gives_each_whole_line_once(tmp_path: Path) -> None:
    log = tmp_path / "coordinator-0.log"
    tail = Tail(log)
    assert tail.new() == []
    log.write_bytes(b"one\ntw")
    assert tail.new() == [b"one"]
    with log.open("ab") as file:
        file.write(b"o\nthree\n")
    assert tail.new() == [b"two", b"three"]
    assert tail.new() == []


def test_a_log_that_begins_anew_is_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "coordinator-0.log"
    log.write_bytes(b"one\ntwo\n")
    tail = Tail(log)
    tail.new()
    log.write_bytes(b"new\n")
    assert tail.new() == [b"new"]


def test_lines_of_all_processes_are_merged_by_their_times(tmp_path: Path) -> None:
    (tmp_path / "worker-0.log").write_bytes(
        line(event="told", worker="w0") + b"\nTraceback: no JSON at all\n"
    )
    (tmp_path / "coordinator-0.log").write_text(LOG_LINES[1] + "\n")
    found = merged(tmp_path, Wanted())
    assert [each["event"] for each in found] == ["told", "Traceback: no JSON at all", "phase"]
    assert [each["process"] for each in found] == ["worker-0", "worker-0", "coordinator-0"]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (Wanted(process="worker-0"), 2),
        (Wanted(process="w9"), 1),
        (Wanted(level="error"), 1),
        (Wanted(text="ZERO"), 1),
        (Wanted(attempt=4), 1),
        (Wanted(since="2023-11-14T22:13:21"), 1),
        (Wanted(until="2023-11-14T22:13:20.5"), 3),
        (Wanted(limit=1), 1),
    ],
)
def test_lines_are_sifted(tmp_path: Path, wanted: Wanted, count: int) -> None:
    (tmp_path / "worker-0.log").write_bytes(
        line(event="told", attempt=4) + b"\n" + line(event="division by zero") + b"\n"
    )
    (tmp_path / "worker-1.log").write_bytes(
        line(event="told", worker="w9").replace(b"info", b"error")
        + b"\n"
        + line(event="late").replace(b"20.000", b"22.000")
        + b"\n"
    )
    assert len(merged(tmp_path, wanted)) == count


def test_of_a_long_log_its_end_is_shown(tmp_path: Path) -> None:
    (tmp_path / "worker-0.log").write_bytes(
        (line(event="x" * 1000) + b"\n") * 3000 + line(event="last") + b"\n"
    )
    found = merged(tmp_path, Wanted(limit=10_000))
    assert found[-1]["event"] == "last" and len(found) <= 1000
