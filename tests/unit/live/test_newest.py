"""What is read of a job that runs: its newest commit removes what older ones named."""

from http.client import HTTPConnection, HTTPException
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flamestream.audit.committed import LastCommit, of_newest
from flamestream.core.protocol.job_record import JobRecord
from flamestream.live import watch
from flamestream.model.errors import Corrupt, Retryable
from flamestream.model.ids import Epoch


def commit(epoch: int) -> LastCommit:
    return LastCommit(cast(JobRecord, SimpleNamespace(committed=Epoch(epoch), index=f"indexes/{epoch}")))


def read(last: LastCommit, *, there: int) -> int:
    if last.epoch < there:
        raise Corrupt(f"of epoch {last.epoch}")
    return last.epoch


def test_what_a_newer_commit_has_removed_is_read_of_that_one() -> None:
    commits = iter([commit(1), commit(2), commit(5)])
    assert of_newest(lambda: next(commits), lambda last: read(last, there=4)) == 5


def test_what_the_newest_commit_names_and_is_not_there_is_damage() -> None:
    with pytest.raises(Corrupt, match="of epoch 3"):
        of_newest(lambda: commit(3), lambda last: read(last, there=4))


def test_a_reader_that_is_always_too_slow_is_told_so() -> None:
    commits = map(commit, range(1_000))
    with pytest.raises(Retryable, match="epochs are committed faster"):
        of_newest(lambda: next(commits), lambda last: read(last, there=10_000))


def test_a_problem_of_the_sink_is_no_change_of_a_row() -> None:
    lines = [b"id: 1\n", b'data: {"key": 1}\n', b"\n", b"event: problem\n", b'data: "a log is gone"\n', b"\n"]

    class Answer(list[bytes]):
        status = 200

    connection: Any = SimpleNamespace(request=lambda *_, **__: None, getresponse=lambda: Answer(lines))
    events = watch._events(cast(HTTPConnection, connection), "/events", "")
    assert next(events) == ("1", '{"key": 1}')
    with pytest.raises(HTTPException, match="a log is gone"):
        next(events)
