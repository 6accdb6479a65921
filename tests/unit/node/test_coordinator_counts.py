"""What a coordinator counts includes workers that are gone, and is bounded; what a worker reports cannot make
it unreadable."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from flamestream.core.coordinator.coordination import Finish, Report, Settings, Status
from flamestream.core.protocol import messages as msg
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import NO_FENCE, Attempt, Epoch, LayoutVersion, SourceName, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import END, START
from flamestream.net.control_link import ControlServer
from flamestream.node import coordinator_host
from flamestream.node.coordinator_host import CoordinatorHost
from flamestream.store.folder import LocalStore
from support.records import Records

A, B = WorkerId("a"), WorkerId("b")
NONE = [0] * msg.MOST_CLASSES


def progress(items_in: int, items_out: int, replayed: int = 0, calls: tuple[int, ...] = ()) -> msg.Progress:
    """`calls`: so many in the first classes."""
    counts = [*calls, *NONE[len(calls) :]] if calls else []
    return msg.Progress(
        NO_FENCE, START, START, END, items_in, items_out, replayed=replayed, latency=counts, release=counts
    )


@pytest.fixture
def host(tmp_path: Path) -> Iterator[CoordinatorHost]:
    reactor, listener = EpollReactor(), socket.create_server(("127.0.0.1", 0))
    settings = Settings(job="j", graph="g", python="3.11", workers=2, fronts=1)
    server = ControlServer(reactor, listener, "j", "token")
    store = LocalStore(tmp_path / "store", create=True)
    yield CoordinatorHost(settings, "token", reactor, Records(), store, server, changed=lambda: None)
    server.close()
    reactor.close()


def test_each_worker_is_told_with_its_slots_and_each_standby_with_whether_it_is_warm(
    host: CoordinatorHost,
) -> None:
    host._laid_out(Layout(LayoutVersion(1), (A, A, B), (A,), A))
    host._status = Status(
        phase="running", workers=(A, B), standbys=(WorkerId("c"), WorkerId("d")), snapshot_size=9
    )
    host.from_worker(A, progress(1, 1))
    for standby, warm in (("c", True), ("d", False)):
        host.from_worker(WorkerId(standby), msgspec.structs.replace(progress(0, 0), warm=warm))
    assert [(each.worker, each.slots) for each in host.look().workers] == [(A, 2), (B, 1)]
    assert host.look().warm == ["c"]
    host._laid_out(Layout(LayoutVersion(2), (B, B, B), (A,), A))
    assert [each.slots for each in host.look().workers] == [0, 3]


def test_a_lost_worker_s_items_stay_counted_and_what_is_read_again_counts_once(host: CoordinatorHost) -> None:
    host.from_worker(A, progress(20, 40))
    host.from_worker(B, progress(5, 10))
    host.disconnected(A, "killed")
    assert (host.look().items_in, host.look().items_out) == (25, 50)
    host.from_worker(B, progress(25, 50, replayed=20))
    assert host.look().items_in == 25
    host.from_worker(A, progress(21, 41))
    assert host.look().items_in == 26, "a worker that comes back counts on"


def test_of_a_worker_that_is_gone_only_those_late_items_count_that_no_other_counts_again(
    host: CoordinatorHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_host, "MOST_LEFT", 1)
    clicks = SourceName("clicks")
    for worker in (A, B):
        told = msgspec.structs.replace(progress(9, 9), late={clicks: 5}, late_since={clicks: 2})
        host.from_worker(worker, told)
    assert host.look().late == {"clicks": 14}
    host.disconnected(A, "killed")
    assert host.look().late == {"clicks": 12}, "its runs above the committed cut are processed once more"
    host.disconnected(B, "killed")
    assert host.look().late == {"clicks": 10}


def test_of_workers_that_left_long_ago_only_the_sums_are_kept(
    host: CoordinatorHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the token may come as a new worker for ever."""
    monkeypatch.setattr(coordinator_host, "MOST_LEFT", 3)
    for number in range(50):
        host.from_worker(WorkerId(f"w{number}"), progress(2, 3, replayed=1))
        host.disconnected(WorkerId(f"w{number}"), "gone")
    assert (host.look().items_in, host.look().items_out) == (50, 150)
    assert len(host._left) == 3


def test_counts_that_come_and_go_or_go_back_are_no_reason_to_fail(host: CoordinatorHost) -> None:
    """Each by itself is a report that decodes."""
    for calls in ((5, 0, 1), (), (0, 5), (0, 0, 0), (3,), ()):
        host.from_worker(A, progress(1, 1, calls=calls))
        host.from_worker(B, progress(1, 1, calls=(1, 2, 3)))
        status = host.look()
        assert status.latency is not None and status.latency.calls >= 0


@contextmanager
def before_each_step(turn: Callable[[], object]) -> Iterator[None]:
    """`turn` comes before each of Python's instructions, where another thread could have its turn."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            turn()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("finish", [Finish("drained"), Finish("failed", "user", "a key is missing")])
def test_another_thread_that_looks_while_the_job_ends_sees_its_own_end_or_none(
    host: CoordinatorHost, finish: Finish
) -> None:
    """An operator acts on it once: a job that was told as completed is never resumed."""
    host._status, steps = Status(phase="running", workers=(A,)), count()
    with before_each_step(lambda: next(steps)):
        host.look()
    seen = set()
    for moment in range(next(steps)):
        host.finish, turns = None, count()

        def turn(moment: int = moment, turns: "count[int]" = turns) -> None:
            if next(turns) == moment:
                host.finish = finish

        with before_each_step(turn):
            said = host.look()
        seen.add((said.outcome, said.category, said.message))
    assert seen == {("", "", ""), (finish.outcome, finish.category, finish.message)}


@pytest.mark.parametrize("first", range(6))
def test_another_thread_may_look_while_workers_come_and_go(
    host: CoordinatorHost, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """The loop has its turn before each step of whoever looks: three workers come, and go again."""
    monkeypatch.setattr(coordinator_host, "MOST_LEFT", 1)
    workers, turns = (A, B, WorkerId("c")), count(first)
    host._status = Status(phase="running", workers=workers)

    def turn() -> None:
        number = next(turns)
        if number % 6 < 3:
            late = {SourceName(f"clicks{number // 20}"): 1}
            host.from_worker(workers[number % 3], msgspec.structs.replace(progress(1, 1), late=late))
        else:
            host.disconnected(workers[number % 3], "gone")

    with before_each_step(turn):
        status = host.look()
    assert [each.worker for each in status.workers] == list(workers)


def test_records_that_recoveries_have_skipped_are_those_that_workers_of_the_layout_tell(
    host: CoordinatorHost,
) -> None:
    clicks, views = SourceName("clicks"), SourceName("views")
    host._report(Report(Status(phase="running", workers=(A, B))))
    host.from_worker(A, msgspec.structs.replace(progress(9, 9), skipped={clicks: 5, views: 0}))
    host.from_worker(B, msgspec.structs.replace(progress(9, 9), skipped={clicks: 2}))
    assert host.look().skipped == {"clicks": 7, "views": 0}
    host._report(Report(Status(phase="running", workers=(A,))))
    host.from_worker(A, msgspec.structs.replace(progress(9, 9), skipped={clicks: 8, views: 0}))
    assert host.look().skipped == {"clicks": 8, "views": 0}, "the next owner of a front counts on"
    host.disconnected(A, "completed")
    assert host.look().skipped == {"clicks": 8, "views": 0}


def test_idle_partitions_are_those_of_the_layout_s_workers(host: CoordinatorHost) -> None:
    clicks = SourceName("clicks")
    for worker, number in ((A, 2), (B, 1)):
        host.from_worker(worker, msgspec.structs.replace(progress(1, 1), idle={clicks: number}))
    host._report(Report(Status(phase="running", workers=(A,))))
    assert host.look().idle == {clicks: 2}


def test_what_a_job_has_come_to_stays_when_its_workers_have_left(host: CoordinatorHost) -> None:
    host._report(Report(Status(phase="running", workers=(A, B))))
    for worker in (A, B):
        host.from_worker(worker, progress(20, 40, calls=(3,)))
    before = host.look()
    host._finish(Finish("completed"))
    for worker in (A, B):
        host.disconnected(worker, "the job has ended")
    assert [(each.items_in, each.items_out) for each in host.look().workers] == [(20, 40)] * 2
    assert (host.look().items_in, host.look().items_out) == (40, 80)
    assert before.latency is not None and host.look().latency == before.latency


def test_the_end_of_a_replay_is_said_once_with_the_steps_before(
    host: CoordinatorHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    steps = (("decide", 1), ("record", 2), ("open", 3), ("seal", 4))
    runs = Status(phase="running", attempt=Attempt(2), cause="lost a", duration_us=10, steps=steps)
    through = replace(runs, steps=(*steps, ("replay", 5000)))
    for status in (runs, through, replace(through, epoch=Epoch(7))):
        host._report(Report(status))
    assert caplog.messages == ["phase", "replayed"]
    assert caplog.records[-1].__dict__["steps_us"] == dict(through.steps)
    last = host.look().last_recovery
    assert last is not None and (last.duration_ms, last.steps_ms["replay"]) == (0.01, 5)


def test_what_every_worker_says_in_every_epoch_is_no_news(
    host: CoordinatorHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    host.from_worker(A, progress(1, 1))
    host.from_worker(A, msg.CutTaken(NO_FENCE, Epoch(1), START))
    assert not caplog.messages
    host.from_worker(A, msg.PeerLost(NO_FENCE, B, "it broke"))
    assert caplog.messages == ["worker says"]
