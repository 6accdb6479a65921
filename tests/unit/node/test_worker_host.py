"""The host: one step a turn, actions to their ports in order, and the end."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from flamestream.core.protocol import actions
from flamestream.core.protocol.actions import Action
from flamestream.core.protocol.events import (
    BundlesAcknowledged,
    Entry,
    Event,
    FromCoordinator,
    JournalAppended,
    Woken,
)
from flamestream.core.protocol.messages import Accepted, Committed, Failed, Frame, Progress, Recover
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    SinkName,
    SourceName,
    WorkerId,
)
from flamestream.model.layout import Assignment, Layout
from flamestream.model.meta import Meta
from flamestream.model.time import FrontId, Instant, Time, Timestamp
from flamestream.node.worker_host import OnDemand, Ports, WorkerHost
from support import loops

FENCE = Fence(Attempt(1), LayoutVersion(1))
NEWER = Fence(Attempt(2), LayoutVersion(2))
FRONT = FrontId(3)
SINK = SinkName("out")


class Recorder:
    """Any port: it notes what is asked of it."""

    def __init__(self, name: str, calls: list[tuple[str, object]]) -> None:
        self._name, self._calls = name, calls

    def __getattr__(self, method: str) -> Callable[..., None]:
        return lambda *arguments: self._calls.append(
            (f"{self._name}.{method}", arguments[0] if len(arguments) == 1 else arguments)
        )


class Script:
    """A worker that answers each step with what the test has prepared."""

    def __init__(self, *answers: list[Action]) -> None:
        self.me = WorkerId("me")
        self.answers = list(answers)
        self.steps: list[list[Event]] = []

    def step(self, now: Timestamp, instant: Instant, batch: list[Event], took: int) -> list[Action]:
        assert now > 1_600_000_000_000_000, "microseconds since 1970"
        assert instant <= time.monotonic_ns() // 1000, "of the clock that nobody sets"
        self.steps.append(batch)
        return self.answers.pop(0) if self.answers else []


class Hosted:
    def __init__(self, loop: EpollReactor, *answers: list[Action]) -> None:
        self.calls: list[tuple[str, object]] = []
        self.inbox: list[Event] = []
        self.script = Script(*answers)
        self.problems: list[str] = []
        self.host = WorkerHost(self.script, loop, self.inbox, self._ports())

    def _ports(self) -> Ports:
        def port(name: str) -> Any:
            return Recorder(name, self.calls)

        return Ports(
            port("links"),
            {FRONT: port("journal")},
            OnDemand(lambda _: port("producer")),
            {SINK: port("consumer")},
            port("snapshots"),
            port("control"),
            lambda: self.problems,
            caller=port("caller"),
            asking=port("asking"),
        )


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


def entry(time: int, partition: str, first: int, count: int) -> Entry:
    return Entry(Time(time), Partition(partition), Offset(first), count)


def appended(*entries: Entry, fence: Fence = FENCE) -> list[Action]:
    return [actions.Append(fence, FRONT, entry) for entry in entries]


def test_all_events_of_a_turn_are_one_step_in_their_order(loop: EpollReactor) -> None:
    hosted = Hosted(loop)
    events = [BundlesAcknowledged(FENCE, SINK, number) for number in range(3)]
    hosted.inbox.extend(events)
    hosted.host.turn()
    hosted.host.turn()
    assert hosted.script.steps == [events]


def test_each_action_goes_to_its_port_in_order(loop: EpollReactor) -> None:
    told = Failed(FENCE, "user", "why")
    asked: list[tuple[str, Action]] = [
        ("control.tell", actions.ToldCoordinator(told)),
        ("links.send", actions.ToPeer(WorkerId("b"), Frame(FENCE, 1, []))),
        ("links.link", actions.LinkPeers(FENCE, "key", {})),
        ("journal.seal", actions.SealJournal(FENCE, FRONT, Time(1))),
        ("journal.append", actions.Append(FENCE, FRONT, entry(1, "p", 0, 1))),
        ("journal.trim", actions.TrimJournal(FENCE, FRONT, Time(1))),
        ("producer.read", actions.ReadRun(FENCE, FRONT, entry(1, "p", 0, 1))),
        ("producer.follow", actions.Follow(FENCE, FRONT, {})),
        ("producer.pull", actions.Pull(FENCE, FRONT, 1, 1)),
        ("consumer.open", actions.OpenSink(FENCE, SINK, [])),
        ("consumer.deliver", actions.Deliver(FENCE, SINK, 1, [])),
        ("caller.make", actions.MakeCall(FENCE, SourceName("priced()"), Meta(b"m"), b"", "id")),
        ("snapshots.upload", actions.Upload(FENCE, Epoch(1), [], [])),
        ("snapshots.load", actions.Load(FENCE, [], [])),
        ("snapshots.prefetch", actions.Prefetch(1, [])),
        ("asking.told", actions.Answered(1, Time(1), [])),
        ("asking.told", actions.NotAnswered(1, "why", again=True)),
    ]
    handled = {type(action) for _, action in asked} | {
        actions.Wake,
        actions.Saved,
        actions.WakeAt,
        actions.Exit,
    }
    assert handled == set(Action.__args__), "an action without a port"
    hosted = Hosted(loop, [action for _, action in asked])
    hosted.inbox.append(Woken())
    hosted.host.turn()
    assert hosted.calls == asked


def test_wake_brings_another_step_without_waiting_for_anything(loop: EpollReactor) -> None:
    hosted = Hosted(loop, [actions.Wake()])
    hosted.inbox.append(Woken())
    hosted.host.turn()
    loop.turn()
    hosted.host.turn()
    assert hosted.script.steps == [[Woken()], [Woken()]]


def test_nothing_is_done_behind_exit(loop: EpollReactor) -> None:
    end = actions.Exit("", "told to stop")
    hosted = Hosted(loop, [actions.LinkPeers(FENCE, "key", {}), end, actions.LinkPeers(NEWER, "key", {})])
    loop.soon(lambda: hosted.inbox.append(Woken()))
    loop.run(hosted.host.turn)
    hosted.inbox.append(Woken())
    hosted.host.turn()
    assert hosted.host.exit == end
    assert [name for name, _ in hosted.calls] == ["links.link"]
    assert len(hosted.script.steps) == 1


@pytest.fixture
def _as_before() -> Iterator[None]:
    """A started host changes how its process collects garbage and switches threads."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("_as_before")
def test_heartbeats_come_again_and_again(loop: EpollReactor) -> None:
    hosted = Hosted(loop, [], [], [actions.Exit("", "enough")])
    hosted.host.start()
    loop.run(hosted.host.turn)
    assert hosted.script.steps == [[Woken()]] * 3


def test_an_exception_of_the_worker_ends_the_loop(loop: EpollReactor) -> None:
    hosted = Hosted(loop)

    def failing(now: Timestamp, instant: Instant, batch: Sequence[Event], took: int) -> list[Action]:
        raise ZeroDivisionError

    hosted.script.step = failing  # type: ignore[method-assign]
    loop.soon(lambda: hosted.inbox.append(Woken()))
    with pytest.raises(ZeroDivisionError):
        loop.run(hosted.host.turn)


def test_a_producer_hears_how_far_each_partition_is_durable(loop: EpollReactor) -> None:
    hosted = Hosted(
        loop, appended(entry(10, "p", 0, 5), entry(20, "q", 0, 1), entry(30, "p", 5, 2), entry(40, "p", 7, 9))
    )
    hosted.inbox.append(Woken())
    hosted.host.turn()
    hosted.calls.clear()
    hosted.inbox.append(JournalAppended(FENCE, FRONT, Time(30)))
    hosted.host.turn()
    assert sorted(hosted.calls, key=str) == [
        ("producer.durable", (20, "q", 1)),
        ("producer.durable", (30, "p", 7)),
    ]
    hosted.calls.clear()
    hosted.inbox.append(JournalAppended(FENCE, FRONT, Time(40)))
    hosted.host.turn()
    assert hosted.calls == [("producer.durable", (40, "p", 16))]


def test_a_client_hears_what_is_durable_behind_what_the_step_made_of_it(loop: EpollReactor) -> None:
    hosted = Hosted(
        loop,
        [actions.Append(FENCE, FRONT, entry(10, "a", 0, 3))],
        [actions.ToPeer(WorkerId("p"), Frame(FENCE, 1, []))],
    )
    hosted.inbox.append(Woken())
    hosted.host.turn()
    hosted.inbox.append(JournalAppended(FENCE, FRONT, Time(10)))
    hosted.host.turn()
    assert [name for name, _ in hosted.calls][-2:] == ["links.send", "producer.durable"]


@pytest.mark.usefixtures("_as_before")
def test_the_collector_runs_when_nothing_happens_and_not_in_the_middle_of_a_worker_s_work(
    loop: EpollReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = Hosted(loop, [actions.Wake()], [])
    told: list[bool] = []
    monkeypatch.setattr("flamestream.loop.collector.Collector.turn", lambda self, *, idle: told.append(idle))
    hosted.inbox.append(JournalAppended(FENCE, FRONT, Time(10)))
    hosted.host.turn()
    loop.turn()
    hosted.host.turn()
    assert told == [False, False]
    hosted.host.start()
    loop.turn()
    hosted.host.turn()
    assert told == [False, False, True]


def test_what_an_older_attempt_has_made_durable_is_not_told(loop: EpollReactor) -> None:
    hosted = Hosted(loop, appended(entry(10, "p", 0, 5)), appended(entry(11, "p", 0, 2), fence=NEWER))
    for _ in range(2):
        hosted.inbox.append(Woken())
        hosted.host.turn()
    hosted.calls.clear()
    hosted.inbox.append(JournalAppended(FENCE, FRONT, Time(10)))
    hosted.host.turn()
    assert hosted.calls == []
    hosted.inbox.append(JournalAppended(NEWER, FRONT, Time(11)))
    hosted.host.turn()
    assert hosted.calls == [("producer.durable", (11, "p", 2))]


def test_a_front_that_another_worker_has_now_is_closed_here_and_opened_again_when_it_comes_back(
    loop: EpollReactor,
) -> None:
    def recover(fence: Fence, owner: str) -> FromCoordinator:
        layout = Layout(fence.layout, (), (WorkerId("me"),) * 3 + (WorkerId(owner),), WorkerId("me"))
        return FromCoordinator(Recover(Assignment(fence, layout), {}, "key", Time(0), Epoch(0), None))

    follow = actions.Follow(FENCE, FRONT, {})
    hosted = Hosted(loop, [follow], [], [follow])
    for event in (recover(FENCE, "me"), recover(NEWER, "other"), Woken()):
        hosted.inbox.append(event)
        hosted.host.turn()
    of_producers = [call for call in hosted.calls if call[0].startswith("producer")]
    assert of_producers == [("producer.follow", follow), ("producer.close", ()), ("producer.follow", follow)]


def test_only_a_worker_that_takes_part_can_be_asked(loop: EpollReactor) -> None:
    hosted = Hosted(loop)
    for fence, owner in ((FENCE, "me"), (NEWER, "other")):
        layout = Layout(fence.layout, (WorkerId(owner),), (), WorkerId(owner))
        recover = Recover(Assignment(fence, layout), {}, "key", Time(0), Epoch(0), None)
        hosted.inbox.append(FromCoordinator(recover))
        hosted.host.turn()
    assert hosted.calls == [("asking.serve", True), ("asking.serve", False)]


def test_lasting_troubles_of_the_ports_travel_with_the_heartbeat(loop: EpollReactor) -> None:
    told = Progress(FENCE, Time(0), Time(0), Time(0), 0, 0, "journal full")
    hosted = Hosted(loop, [actions.ToldCoordinator(told)])
    hosted.problems.append("sink out: not reachable")
    hosted.inbox.append(Woken())
    hosted.host.turn()
    ((_, sent),) = hosted.calls
    assert isinstance(sent, actions.ToldCoordinator)
    assert isinstance(sent.message, Progress)
    assert sent.message.problem == "journal full; sink out: not reachable"


def test_a_heartbeat_says_what_memory_the_process_takes(loop: EpollReactor) -> None:
    told = actions.ToldCoordinator(Progress(FENCE, Time(0), Time(0), Time(0), 0, 0))
    hosted = Hosted(loop, [told], [told])
    said: list[int] = []
    ballast = b""
    for size in (0, 64 << 20):
        ballast = b"x" * size
        hosted.inbox.append(Woken())
        hosted.host.turn()
        _, sent = hosted.calls[-1]
        assert isinstance(sent, actions.ToldCoordinator) and isinstance(sent.message, Progress)
        said.append(sent.message.memory)
    assert len(ballast) * 0.9 < said[1] - said[0] < len(ballast) * 1.5


def test_a_producer_hears_what_a_snapshot_has_of_a_front_without_a_journal(loop: EpollReactor) -> None:
    offsets = {Partition("p"): Offset(7), Partition("q"): Offset(1)}
    hosted = Hosted(loop, [actions.Saved(FENCE, FRONT, Time(40), offsets)])
    hosted.inbox.append(Woken())
    hosted.host.turn()
    assert hosted.calls == [("producer.durable", (40, "p", 7)), ("producer.durable", (40, "q", 1))]


@pytest.mark.parametrize(
    ("committed", "told"),
    [
        (Committed(FENCE, Epoch(7), Time(90)), [("producer.committed", {Partition("p"): Offset(5)})]),
        (Committed(FENCE, Epoch(6), Time(80)), []),
        (Committed(NEWER, Epoch(7), Time(90)), []),
    ],
    ids=["accepted", "an older epoch", "another attempt"],
)
def test_a_producer_hears_how_far_its_front_is_once_the_epoch_is_committed(
    loop: EpollReactor, committed: Committed, told: list[tuple[str, object]]
) -> None:
    position = FrontPosition(FRONT, Time(80), {Partition("p"): Offset(5)})
    accepted = Accepted(FENCE, Epoch(7), Time(90), [], [], [position], [])
    hosted = Hosted(loop, [actions.Pull(FENCE, FRONT, 1, 1), actions.ToldCoordinator(accepted)])
    for event in (Woken(), FromCoordinator(committed)):
        hosted.inbox.append(event)
        hosted.host.turn()
    assert [call for call in hosted.calls if call[0] == "producer.committed"] == told
