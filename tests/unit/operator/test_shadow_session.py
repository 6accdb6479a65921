"""A shadow in the pods of trials: each goes on where the one before has stopped."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.store.folder import LocalStore
from flamestream.store.zookeeper_access import NOWHERE
from flamestream_operator.tools import shadow_session
from flamestream_operator.tools.shadow_session import Session
from support.runs.past_run import own_modules
from support.runs.shadowed_run import ShadowedJob

TWICE = ("count + 1", "count + 2")


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    with own_modules():
        yield


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_session, "LOOK", 0.0)


def session(job: ShadowedJob) -> Session:
    return Session(job.checked, "words", NOWHERE, lambda: job.index)


def test_pods_go_on_one_behind_the_other(tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path, TWICE)
    looks = 0

    def committed() -> SnapshotIndex:
        nonlocal looks
        looks += 1
        if looks == 3:  # behind its beginning
            job.commit(7)
        return job.index

    first = replace(session(job), committed=committed).run(5.0)
    assert (first.records, first.differ) == (12, 12) and "0 behind" in first.notes[0]
    job.commit(10)
    second = session(job).run(5.0)
    assert (second.records, second.differ, second.equal) == (24, 24, 0)
    assert len(LocalStore(tmp_path / "snapshots", durable=False).names("shadows/words/words/")) == 1


def test_an_obstacle_is_a_reason_and_code_that_ends_its_process_is_a_failure(tmp_path: Path) -> None:
    job = ShadowedJob(tmp_path, ("count + 1", "__import__('os')._exit(3)"))
    assert "saved nothing" in replace(session(job), committed=lambda: None).run(0.1).untried
    looks = iter([job.index, job.index])

    def committed() -> SnapshotIndex:
        found = next(looks, None)
        if found is None:
            job.commit(10)
        return found or job.index

    assert "exit code 3" in replace(session(job), committed=committed).run(5.0).failed
