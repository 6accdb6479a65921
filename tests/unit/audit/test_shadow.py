"""A shadow: the state of its code goes on from each committed cut to the next, and what it gives is compared with what
the sink has."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from flamestream.audit.canary import Canary
from flamestream.audit.shadow import entered, kept, session
from flamestream.audit.shadow.entered import LeftBehind
from flamestream.audit.shadow.session import Shadow, why_not_own
from flamestream.audit.shadow.total import Total
from flamestream.journal import places
from flamestream.journal.file import head
from flamestream.model.errors import Corrupt, UserError
from flamestream.store.folder import LocalStore
from support.runs.past_run import Kind, own_modules, run_time
from support.runs.shadowed_run import BEGIN, ShadowedJob

TWICE = ("count + 1", "count + 2")
FAILS = ("count + 1", "count + 1 // (count - 2)")


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    with own_modules():
        yield


def told(canary: Canary) -> tuple[int, int, int, int]:
    return canary.equal, canary.differ, canary.only_before, canary.only_after


def verdicts(shadow: Shadow) -> list[tuple[int, int, int, int]]:
    """Of all rounds until nothing is left."""
    found = []
    while (each := shadow.round()) is not None:
        found.append(told(each.canary))
    return found


@pytest.mark.parametrize("kind", ["followed", "socket", "timed"])
def test_its_state_goes_on_from_cut_to_cut(kind: Kind, tmp_path: Path) -> None:
    """The same code gives the same counts: a state that was lost, or given twice, would give others."""
    job = ShadowedJob(tmp_path, ("words.sink", "# edited\nwords.sink"), kind=kind)
    shadow, length = job.shadow(), job.past.length
    assert shadow.round() is None, "nothing is committed behind its place"
    for runs in (6, 7, 10):
        before = job.index.epoch
        job.commit(runs)
        found = shadow.round()
        assert found is not None and found.behind == 0
        assert told(found.canary) == ((runs - before) * length, 0, 0, 0)
        assert shadow.round() is None
    assert (shadow.total.records, shadow.total.equal, shadow.total.differs) == (6 * length, 6 * length, False)


def test_what_differs_is_told_with_both_values(tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path, TWICE)
    shadow = job.shadow()
    job.commit(7)
    assert verdicts(shadow) == [(0, 12, 0, 0)]
    job.commit(10)
    found = shadow.round()
    assert found is not None and told(found.canary) == (0, 12, 0, 0)
    first = found.canary.differences[0]
    word, count = eval(first.before or "")  # noqa: S307  what a repr has
    old = sum(line.split()[0] == word for line in job.past.lines[: BEGIN * 4])
    assert first.after == repr((word, old + 2 * (count - old))), "what it has added is its own, not the job's"
    assert "0 records behind" in str(found)


def test_a_round_that_ends_early_goes_on_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MOST_RECORDS", 100)
    job = ShadowedJob(tmp_path, kind="timed")
    shadow = job.shadow()
    job.commit(10)
    first = shadow.round()
    assert first is not None
    assert (first.canary.equal, first.behind) == (128, 4 * 64), (
        "whole runs, and what it has not come to is told"
    )
    assert verdicts(shadow) == [(128, 0, 0, 0), (128, 0, 0, 0)]


def test_errors_of_its_own_are_told(tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path, FAILS)
    shadow = job.shadow()
    job.commit(10)
    found = shadow.round()
    assert found is not None and found.canary.new_errors and "ZeroDivisionError" in found.canary.first_error
    assert shadow.total.differs


def test_code_that_ends_its_process_ends_the_shadow(tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path, ("count + 1", "__import__('os')._exit(3)"))
    shadow = job.shadow()
    job.commit(10)
    with pytest.raises(UserError, match="ended with exit code 3"):
        shadow.round()


def test_runs_that_were_trimmed_unseen_have_it_begin_anew(tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path)
    shadow = job.shadow()
    job.commit(8)
    (log,) = (tmp_path / "journal").glob("front-0/attempt-*.log")
    data = log.read_bytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places, "everything", trimmed)
        with pytest.raises(LeftBehind, match="of source 'lines' were trimmed"):
            shadow.round()
    assert log.read_bytes() == data, "it has changed nothing"
    shadow.begin_anew()
    job.commit(10)
    assert verdicts(shadow)
    assert shadow.total.begun_anew == 1 and "begun anew 1 time" in str(shadow.total)


def trimmed(*_: object) -> object:
    raise Corrupt("a file is missing")


def test_more_than_it_may_keep_has_it_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entered, "MOST_BYTES", 3 * entered.ENTRY_BYTES)
    job = ShadowedJob(tmp_path)
    shadow = job.shadow()
    job.commit(10)
    with pytest.raises(LeftBehind, match="wait for it"):
        shadow.round()


@pytest.mark.parametrize("looked", [True, False])
def test_what_was_seen_before_it_was_trimmed_is_kept(looked: bool, tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path)
    spec = job.checked.job.spec
    assert spec.journal is not None
    trims = msgspec.structs.replace(spec, journal=msgspec.structs.replace(spec.journal, keep=False))
    job.checked = replace(job.checked, job=msgspec.structs.replace(job.checked.job, spec=trims))
    shadow = job.shadow()
    if looked:
        shadow.look()
    (log,) = (tmp_path / "journal").glob("front-0/attempt-*.log")
    log.write_bytes(head(run_time(9)))  # all that was in it is gone
    job.commit(10)
    if looked:
        assert verdicts(shadow) == [(24, 0, 0, 0)]
    else:
        with pytest.raises(LeftBehind, match="were trimmed before they were seen"):
            shadow.round()


def test_a_sink_that_nobody_can_read_back_is_named(tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path)
    job.checked = replace(
        job.checked,
        job=msgspec.structs.replace(
            job.checked.job,
            spec=msgspec.structs.replace(job.checked.job.spec, sinks={"counts": {"discard": {}}}),
        ),
    )
    shadow = job.shadow()
    assert list(shadow.unread) == ["counts"]
    job.commit(10)
    assert verdicts(shadow) == [(0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("guarantee", "has"),
    [("exactly-once", True), ("at-least-once", True), ("exactly-once-2pc", False), ("at-most-once", False)],
)
def test_who_has_one(guarantee: str, has: bool, tmp_path: Path) -> None:
    spec = msgspec.structs.replace(ShadowedJob(tmp_path).checked.job.spec, guarantee=guarantee)
    assert (why_not_own(spec) == "") == has


@pytest.mark.parametrize("kind", ["followed", "timed"])
def test_another_process_goes_on_with_what_one_has_left(kind: Kind, tmp_path: Path) -> None:
    """The same as in one: else the state that is its own would be the job's again."""
    job, store = ShadowedJob(tmp_path, TWICE, kind=kind), LocalStore(tmp_path / "snapshots", durable=False)
    first = job.shadow()
    job.commit(7)
    assert verdicts(first) == [(0, 3 * job.past.length, 0, 0)]
    kept.keep(store, "job/green", first.kept)
    job.commit(10)
    alone = first.round()
    assert alone is not None
    left = kept.kept_of(store, "job/green", job.checked.code)
    assert left is not None
    found = job.shadow(left).round()
    assert found is not None and found.canary.differences == alone.canary.differences
    assert found.total == alone.total and found.total.records == 6 * job.past.length
    assert kept.kept_of(store, "job/green", "another code") is None
    kept.keep(store, "job/green", first.kept)
    assert len(store.names("shadows/")) == 1, "what was left before is gone"
    kept.forget(store, "job/green")
    assert not store.names("shadows/")


def test_totals_are_sums() -> None:
    total = Total(epoch=3).plus(Canary(records=4, equal=3, differ=1)).plus(Canary(records=2, only_after=2))
    assert str(total) == "since epoch 3: 6 records, 3 results equal, 1 differ, 2 only after"
