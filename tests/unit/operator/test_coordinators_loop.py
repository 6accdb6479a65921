"""The loop of all jobs' coordinators: what a call raises is its job's, or its asker's; what is nobody's does
not end the loop."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flamestream.core.coordinator.coordination import Settings
from flamestream.model.errors import Bug
from flamestream.store.places import store_from
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.coordination import coordinators as module
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.coordination.coordinators import MOST_ERRORS, Coordinators
from flamestream_operator.coordination.hosting import JobToCoordinate

JOB = JobToCoordinate(
    settings=Settings(job="ns.j", graph="", python="", workers=1, fronts=1), token="t", store="/nowhere"
)


@pytest.fixture
def made() -> Iterator[Coordinators]:
    place = ZooKeeper(access=ZooKeeperAccess("127.0.0.1:1", "operator:secret"))
    coordinators = Coordinators(
        zookeeper=place,
        host="127.0.0.1",
        port=0,
        changed=lambda job: None,
        store_of=lambda url, _: store_from(url),
    )
    yield coordinators
    coordinators.close()


def broken(*_: object) -> Any:
    raise ZeroDivisionError("no such thing")


def later(coordinators: Coordinators, seconds: float, call: Callable[[], None]) -> None:
    coordinators._reactor.later(seconds, call)


def turns(coordinators: Coordinators) -> bool:
    """Whether a call that comes now is still heard."""
    heard = threading.Event()
    coordinators._reactor.soon(lambda: later(coordinators, 0.01, heard.set))
    return heard.wait(10) and coordinators.healthy()


def test_an_error_that_is_nobody_s_is_logged_and_the_loop_turns_on(
    made: Coordinators, caplog: pytest.LogCaptureFixture
) -> None:
    made._reactor.soon(broken)
    made._reactor.soon(lambda: later(made, 0, broken))
    assert turns(made)
    assert [
        record.exc_info is not None for record in caplog.records if "loop has failed" in record.message
    ] == [True, True]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_errors_without_end_end_the_loop_so_that_the_process_is_restarted(made: Coordinators) -> None:
    for _ in range(MOST_ERRORS - 1):
        made._reactor.soon(broken)
    assert turns(made)
    made._reactor.soon(broken)
    made._thread.join(10)
    assert not made.healthy()


def test_a_job_that_cannot_be_started_is_named_and_costs_the_others_nothing(
    made: Coordinators, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "Hosted", broken)
    made.start(JOB)
    assert turns(made)
    assert [getattr(record, "job", "") for record in caplog.records if record.levelno >= logging.ERROR] == [
        "ns.j"
    ]


def test_what_is_asked_of_a_job_and_raises_ends_that_job_s_coordination(
    made: Coordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Exception] = []
    made.start(JOB)
    assert turns(made)
    hosted = made._hosted["ns.j"]
    monkeypatch.setattr(hosted, "broken", ended.append)
    monkeypatch.setattr(hosted, "gone", broken)
    made.gone("ns.j", "10.0.0.1")
    assert turns(made)
    assert [type(error) for error in ended] == [ZeroDivisionError]


def test_who_asks_what_cannot_be_asked_hears_it(made: Coordinators, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when too many calls wait for a helper thread."""

    def full(*_: object) -> None:
        raise Bug("4096 calls wait for a helper thread")

    monkeypatch.setattr(made._for_records, "background", full)
    monkeypatch.setattr(made._for_stores, "background", full)
    for answer in (made.record("ns.j"), made.savepoint(JOB, "s")):
        with pytest.raises(Bug, match="4096"):
            answer.result(10)
    assert turns(made)


class Turned:
    """A job of the loop that counts its turns."""

    def __init__(self) -> None:
        self.job, self.turns = JOB, 0

    def turn(self) -> None:
        self.turns += 1

    def close(self) -> None:
        """It has no links."""


def test_a_job_has_a_turn_when_something_is_due_and_no_other_time(made: Coordinators) -> None:
    busy, idle = Turned(), Turned()

    def begin() -> None:
        made._hosted |= {JOB.job: busy, "ns.idle": idle}  # type: ignore[dict-item]
        made._due[busy] = None  # type: ignore[index]

    made._reactor.soon(begin)
    assert turns(made)
    assert (busy.turns, idle.turns) == (1, 0)


def test_a_job_that_was_stopped_has_no_turn_though_something_is_due(made: Coordinators) -> None:
    stopped = Turned()

    def begin() -> None:
        made._hosted[JOB.job] = stopped  # type: ignore[assignment]
        made._stop(JOB.job)
        made._due[stopped] = None  # type: ignore[index]

    made._reactor.soon(begin)
    assert turns(made)
    assert stopped.turns == 0
