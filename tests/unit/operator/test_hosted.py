"""One job's coordinator, as a thread beside the loop reads it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from flamestream.core.coordinator.coordination import Finish, Settings, Status
from flamestream.core.protocol.messages import Hello
from flamestream.job.status import JobStatus
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.net.acceptor import listen
from flamestream.net.control_link import ControlListener
from flamestream_operator.coordination.hosted import AMONG_OTHERS_US, Hosted
from flamestream_operator.coordination.hosting import ConnectedWorker, JobToCoordinate
from support.loops import reactor

JOB = JobToCoordinate(
    settings=Settings(job="ns.j", graph="", python="", workers=1, fronts=1), token="t", store="/nowhere"
)


def test_a_coordinator_that_is_let_go_while_it_is_read_is_read_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was fenced: the loop's thread makes room for its successor."""
    worker = WorkerId("w")
    host = SimpleNamespace(
        look=lambda: "its status", status=Status(phase="running", workers=(worker,)), finish=None,
        is_warm=lambda worker: True,
    )  # fmt: skip

    def let_go() -> None:
        reads = iter([host])
        monkeypatch.setattr(Hosted, "_host", property(lambda _: next(reads, None)), raising=False)

    with reactor() as loop:
        listener = ControlListener(loop, listen("127.0.0.1"))
        hosted = Hosted(JOB, loop, listener, None, None, (loop, loop), lambda job: None, lambda hosted: None)  # type: ignore[arg-type]
        hosted._hellos[worker] = (SimpleNamespace(address="10.0.0.1:1"), 5.0)  # type: ignore[assignment]
        let_go()
        assert hosted.status() == "its status"  # type: ignore[comparison-overlap]  # the stand-in's
        let_go()
        assert hosted.members() == (ConnectedWorker("w", "10.0.0.1:1", 5.0, standby=False),)
        listener.acceptor.close()


class Coordinator:
    """A stand-in for the host of one."""

    def __init__(self) -> None:
        self.finish: Finish | None = None
        self.status = Status(phase="running")
        self.known: list[str] = []
        self.asked: list[str] = []
        self.inherited: list[str] = []

    def turn(self) -> None:
        """Nothing goes on in it."""

    def look(self) -> JobStatus:
        return JobStatus(job="ns.j", pid=0, updated=0, phase="running")

    def connected(self, hello: Hello) -> None:
        self.known.append(hello.worker)

    def upgrade(self, wanted: Settings | None) -> None:
        self.asked.append("" if wanted is None else wanted.code)

    def inherit(self, before: Settings) -> None:
        assert before.graph == "g", "as its worker says"
        self.inherited.append(before.code)


class Life:
    """One job's coordinators, one behind the other, and what its workers are told."""

    def __init__(self, hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosted, self.said = hosted, list[Any]()
        self.coordinators: list[Coordinator] = []
        later: list[Any] = []

        def made(job: JobToCoordinate, _: object) -> Coordinator:
            self.coordinators.append(Coordinator())
            self.coordinators[-1].status = Status(phase="running", code=job.settings.code)
            return self.coordinators[-1]

        monkeypatch.setattr(hosted, "_made", made)
        server = SimpleNamespace(
            tell=lambda worker, message: self.said.append((worker, message)),
            disconnect=lambda worker: self.said.append((worker, "let go")),
        )
        monkeypatch.setattr(hosted, "_server", server)
        monkeypatch.setattr(hosted, "_reactor", SimpleNamespace(later=lambda _, do: later.append(do)))
        self.later = later

    def dials(self, worker: str, code: str) -> None:
        name = WorkerId(worker)
        self.hosted.connected(Hello(name, f"{worker}:1", NO_FENCE, False, "p", "g", code=code))

    def is_fenced(self) -> None:
        self.coordinators[-1].finish = Finish("fenced", "", "another coordinator acts")
        self.hosted._finished(self.coordinators[-1].finish)


def of(code: str, before: str = "") -> JobToCoordinate:
    """The job with code `code`; `before`: it has gone on from that."""
    was = replace(JOB.settings, code=before) if before else None
    return structs.replace(JOB, settings=replace(JOB.settings, code=code), before=was)


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """A job that runs code `old`, and is to go on with code `new`."""
    job, new = of("old"), of("new")
    with reactor() as loop:
        listener = ControlListener(loop, listen("127.0.0.1"))
        hosted = Hosted(job, loop, listener, None, None, (loop, loop), lambda job: None, lambda hosted: None)  # type: ignore[arg-type]
        made = Life(hosted, monkeypatch)
        hosted.upgrade(new)
        made.dials("a", "old")
        made.dials("b", "new")
        yield made
        listener.acceptor.close()


def test_the_successor_of_a_fenced_coordinator_is_asked_for_the_upgrade_too(life: Life) -> None:
    """Else its workers would be of another application for ever, and no upgrade come to an end."""
    assert life.coordinators[0].asked == ["new"]
    life.is_fenced()
    (begin_again,) = life.later
    begin_again()
    life.dials("a", "old")
    life.dials("b", "new")
    assert life.coordinators[1].asked == ["new"] and life.coordinators[1].known == ["a", "b"]


def test_who_dials_a_coordinator_that_was_fenced_is_not_told_that_the_job_has_ended(life: Life) -> None:
    life.is_fenced()
    life.dials("c", "new")
    assert life.said == [] and life.coordinators[0].known == ["a", "b"]
    (begin_again,) = life.later
    begin_again()
    assert sorted(life.said) == [(name, "let go") for name in "abc"], "they dial again"


class Records:
    """A record that says which code runs, once it can be read."""

    def __init__(self, code: str) -> None:
        self.code, self.away = code, False

    def background(self, _: object, done: Callable[[Any], None]) -> None:
        done(ConnectionError() if self.away else (SimpleNamespace(code=self.code), 1))


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[JobToCoordinate, Records], Life]]:
    """The job as a leader hosts it that has just begun to lead."""
    with reactor() as loop:
        listener = ControlListener(loop, listen("127.0.0.1"))

        def begun(job: JobToCoordinate, records: Records) -> Life:
            about: Any = (
                SimpleNamespace(read=None),
                None,
                (loop, loop),
                lambda job: None,
                lambda hosted: None,
            )
            made = Life(Hosted(job, loop, listener, *about), monkeypatch)
            monkeypatch.setattr(made.hosted, "_threads", (records, records))
            return made

        yield begun
        listener.acceptor.close()


Behind = Callable[[JobToCoordinate, Records], Life]


@pytest.mark.parametrize("first", ["old", "new"])
def test_a_leader_that_begins_behind_a_tick_has_its_code_watched(behind: Behind, first: str) -> None:
    life = behind(of("new", before="old"), Records("new"))
    life.dials("a", first)
    life.dials("b", "old" if first == "new" else "new")
    (coordinator,) = life.coordinators
    assert (coordinator.status.code, coordinator.inherited) == ("new", ["old"])
    assert sorted(coordinator.known) == ["a", "b"]
    life.dials("c", "old")
    assert coordinator.inherited == ["old"], "once"


def test_a_leader_that_dies_at_a_tick_has_a_successor_that_has_its_code_watched(behind: Behind) -> None:
    """The status says that the old code runs, and that the new one is to take over."""
    life = behind(of("old"), Records("new"))
    life.hosted.upgrade(of("new"))
    life.dials("b", "new")
    life.dials("a", "old")
    (coordinator,) = life.coordinators
    assert (coordinator.status.code, coordinator.inherited) == ("new", ["old"])
    assert life.hosted.serves(of("new", before="old")), "it goes on with the same coordinator"


def test_a_leader_that_begins_behind_a_way_back_goes_on_with_the_code_before(behind: Behind) -> None:
    life = behind(of("new", before="old"), Records("old"))
    life.dials("b", "new")
    assert life.coordinators == []
    life.dials("a", "old")
    (coordinator,) = life.coordinators
    assert (coordinator.status.code, coordinator.inherited) == ("old", [])
    assert life.hosted.serves(of("old")) and not life.hosted.serves(of("new"))


def test_the_code_before_is_said_to_be_there_until_its_workers_have_had_time_to_come(behind: Behind) -> None:
    """Who reads that there is none lets them go."""
    life = behind(of("new", before="old"), Records("new"))
    life.dials("b", "new")
    (late,) = life.later
    assert (life.hosted.status().before, life.hosted.status().watched) == ("old", True)
    late()
    assert life.hosted.status().before == ""
    life.dials("a", "old")
    assert life.coordinators[0].inherited == []


def test_a_record_that_cannot_be_read_is_asked_again(behind: Behind) -> None:
    records = Records("new")
    records.away = True
    life = behind(of("new", before="old"), records)
    life.dials("b", "new")
    (ask_again,) = life.later
    records.away = False
    ask_again()
    assert len(life.coordinators) == 1


def test_commits_alone_are_told_ever_more_rarely_until_something_else_happens() -> None:
    told, now, status = list[int](), [0], Status(phase="running")
    with reactor() as loop:
        listener = ControlListener(loop, listen("127.0.0.1"))
        about: Any = (None, None, (loop, loop), lambda job: told.append(now[0]), lambda hosted: None)
        hosted = Hosted(JOB, loop, listener, *about)
        hosted._reactor = SimpleNamespace(instant=lambda: now[0] * 1_000_000)  # type: ignore[assignment]

        def commit(seconds: int, **other: object) -> None:
            nonlocal status
            now[0] = seconds
            status = replace(status, epoch=status.epoch + 1, **other)  # type: ignore[arg-type]
            hosted._host = SimpleNamespace(status=status, finish=None, is_warm=lambda _: True)  # type: ignore[assignment]
            hosted._look()

        for seconds in range(100):
            commit(seconds)
        assert told == [0, 1, 3, 7, 15, 31, 61, 91]
        commit(100, attempt=2)
        commit(101)
        assert told[-2:] == [100, 101], "the first commit behind a recovery is told at once"
        listener.acceptor.close()


def test_who_comes_late_among_the_workers_of_many_jobs_is_not_taken_for_lost() -> None:
    """A new leader's workers all dial at once, and are let in one after the other."""
    with reactor() as loop:
        listener = ControlListener(loop, listen("127.0.0.1"))
        about: Any = (None, None, (loop, loop), lambda job: None, lambda hosted: None)
        waits = list[int]()
        for others in (1, 301):
            hosted = Hosted(JOB, loop, listener, *about)
            hosted.others = lambda others=others: others  # type: ignore[misc]
            made = hosted._made(JOB, Hello(WorkerId("w"), "10.0.0.1:1", NO_FENCE, False, "p", "g"))
            waits.append(made._settings.settle_us)
            assert made._settings.discovery_us > made._settings.settle_us, (
                "or nobody would be waited for so long"
            )
        assert waits == [JOB.settings.settle_us, JOB.settings.settle_us + 300 * AMONG_OTHERS_US]
        listener.acceptor.close()


def test_workers_that_come_one_after_the_other_are_told_of_together_and_all_of_them() -> None:
    told, now, timers = list[tuple[int, int]](), [0], list[tuple[float, Callable[[], None]]]()
    status = Status(phase="gathering")
    with reactor() as loop:
        listener = ControlListener(loop, listen("127.0.0.1"))
        about: Any = (None, None, (loop, loop), lambda job: told.append((now[0], len(status.standbys))), None)
        hosted = Hosted(JOB, loop, listener, *about)
        hosted._reactor = SimpleNamespace(  # type: ignore[assignment]
            instant=lambda: now[0] * 1000,
            later=lambda seconds, call: timers.append((now[0] + seconds * 1e3, call)),
        )

        def comes(at: int, **other: object) -> None:
            nonlocal status
            while timers and timers[0][0] <= at:
                now[0] = int(timers[0][0])
                timers.pop(0)[1]()
            now[0] = at
            status = replace(status, standbys=(*status.standbys, WorkerId(f"w{at}")), **other)  # type: ignore[arg-type]
            hosted._host = SimpleNamespace(status=status, finish=None, is_warm=lambda _: True)  # type: ignore[assignment]
            hosted._look()

        for milliseconds in (1000, 1010, 1020, 1150, 1500, 1510):
            comes(milliseconds)
        comes(1520, phase="recovering")
        assert told == [(1000, 1), (1210, 4), (1500, 5), (1520, 7)]
        listener.acceptor.close()
