"""The audit of `audit --spark`: it says of the damaged runs what the audit in one process says, with the same
bounds and words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream.audit.job_audit import audited
from flamestream.audit.report import Report, sentence
from flamestream.cli.spark.audit import audited_in
from flamestream.model.errors import UserError
from support.frames.session import spark_session
from support.runs.damage import BOUNDS, INPUT, OUTPUT, RIGHT, Damage
from support.runs.past_run import finished, own_modules

pytestmark = [pytest.mark.spark, pytest.mark.frames]
EVERY = [*OUTPUT, *INPUT, *BOUNDS, *RIGHT]
ALWAYS = {
    "swapped across runs", "places swapped across slots", "another job's output",
    "more lines in a source that was through", "going on, a hole above the bound", "completed",
}  # fmt: skip
"""At every push: some of each kind. The others are `slow`."""


@pytest.fixture(autouse=True)
def application() -> Iterator[None]:
    with own_modules():
        yield


def marked(damage: Damage) -> Any:
    return pytest.param(
        damage, id=damage.name.replace(" ", "-"), marks=[] if damage.name in ALWAYS else [pytest.mark.slow]
    )


@pytest.mark.parametrize("damage", [marked(damage) for damage in EVERY])
def test_the_verdict_is_that_of_one_process(damage: Damage, tmp_path: Path) -> None:
    past = damage.past()
    sink = {"files": {"path": str(tmp_path / "out"), "fsync": False}}
    job = past.leave(tmp_path, sink, module=f"words_{abs(hash(tmp_path))}")
    here, there = audited(job, past.last_commit()), audited_in(spark_session(), job, past.last_commit())
    assert comparable(there) == comparable(here)
    assert (there.clean, there.kept, there.empty) == (here.clean, here.kept, here.empty)
    assert sentence(there).splitlines()[:-1] == sentence(here).splitlines()[:-1]
    assert bool(there.first_difference) == bool(here.first_difference)


def test_other_sinks_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    past = finished()
    job = past.leave(tmp_path, {"rolling": {"path": str(tmp_path / "out"), "segmentSeconds": 0}})
    with pytest.raises(
        UserError, match=r"is not a `files` sink, and `audit --spark` reads no other: leave out --spark"
    ):
        audited_in(None, job, past.last_commit())


def comparable(report: Report) -> Any:
    verdict = {
        name: getattr(report.verdict, name) for name in report.verdict.__slots__ if name != "first_difference"
    }
    return verdict, report.records, report.complete, report.input, report.bounds


assert {damage.name for damage in EVERY} >= ALWAYS
