"""Attempts: what belongs to another one changes nothing, and what ends this one is said with each report."""

from collections.abc import Callable

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.chain import Chain
from flamestream.core.worker.worker import FENCED_HEARTBEATS
from flamestream.model.graph import Graph
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    MessageId,
    Offset,
    SequenceNumber,
    Slot,
    WorkerId,
)
from flamestream.model.layout import Assignment
from flamestream.model.meta import meta_of
from flamestream.model.payload import encode_items, encode_many
from flamestream.model.time import END, START, Time, Timestamp
from support.core.core_cluster import CoreCluster, P
from support.core.fronts import actions_of
from support.core.letters import OUT, F, letters_cluster, messages_of

OLD = Fence(Attempt(1), LayoutVersion(1))

ENTRY = ev.Entry(Time(1 << 40), P, Offset(0), 1)
DATA = msg.Data(Time(1), MessageId(1), [1], [meta_of(Time(1), 0)], [False], encode_many(["z"]))
STALE: list[ev.Event] = [
    ev.FromPeer(WorkerId("w1"), msg.Frame(OLD, 1, [DATA])),
    ev.FromPeer(
        WorkerId("w1"),
        msg.Frame(
            OLD, 1, [msg.Acks([1], [1]), msg.Promise(F, END, END), msg.MinimalTime(END), msg.Settled(END)]
        ),
    ),
    ev.LinkBroken(OLD, WorkerId("w1"), "reset"),
    ev.RecordsArrived(OLD, F, P, Offset(8), ["z"], 1),
    ev.RunRead(OLD, F, ENTRY, ["z"]),
    ev.SourceEnded(OLD, F),
    ev.SourceFailed(OLD, F, "user", "gone"),
    ev.JournalAppended(OLD, F, END),
    ev.JournalFailed(OLD, F, "full"),
    ev.JournalSealed(OLD, F, [ENTRY]),
    ev.SinkOpened(
        OLD,
        OUT,
        {Slot(0): ev.LastBundle(SequenceNumber(99), meta_of(END, 0), encode_items([(meta_of(END, 0), "z")]))},
    ),
    ev.SinkFenced(OLD, OUT),
    ev.SinkFailed(OLD, OUT, "corrupt", "lost"),
    ev.BundlesAcknowledged(OLD, OUT, 1),
    ev.Uploaded(OLD, Epoch(1), [], []),
    ev.UploadFailed(OLD, Epoch(1), "full"),
    ev.Loaded(OLD, [Chain(1, Slot(0), b"k", Epoch(1), True, (b"",))]),
    ev.LoadFailed(OLD, "corrupt", "damaged"),
    *(
        ev.FromCoordinator(message)
        for message in (
            msg.Seal(OLD),
            msg.Replay(OLD, END),
            msg.Announce(OLD, Epoch(9), []),
            msg.Committed(OLD, Epoch(9), END),
            msg.Abort(OLD, Epoch(9)),
            msg.Drain(OLD),
        )
    ),
]


@pytest.mark.parametrize("stale", STALE, ids=lambda event: type(getattr(event, "message", event)).__name__)
def test_what_belongs_to_an_older_attempt_changes_nothing(stale: ev.Event) -> None:
    cluster = letters_cluster()
    cluster.recover()
    cluster.run()
    for name in cluster.workers:
        assert cluster.step(name, stale) == []
    cluster.feed(0, *"abc")
    cluster.end()
    cluster.run()
    cluster.check()


def test_a_recover_of_an_older_attempt_or_of_this_one_changes_nothing() -> None:
    cluster = letters_cluster()
    cluster.recover()
    cluster.run()
    for fence in (OLD, cluster.fence):
        again = msg.Recover(Assignment(fence, cluster.layout), {}, "key", START, Epoch(0), None)
        assert all(cluster.step(name, ev.FromCoordinator(again)) == [] for name in cluster.workers)


def test_a_frame_of_a_newer_attempt_waits_for_nobody() -> None:
    cluster = letters_cluster()
    newer = msg.Frame(Fence(Attempt(9), LayoutVersion(9)), 1, [msg.MinimalTime(END)])
    assert all(cluster.step(name, ev.FromPeer(WorkerId("w9"), newer)) == [] for name in cluster.workers)


def test_a_fenced_worker_waits_for_the_newer_attempt_and_gives_up_if_it_is_of_another_one() -> None:
    cluster = letters_cluster()
    (told,) = messages_of(cluster.step(WorkerId("w0"), ev.SinkFenced(cluster.fence, OUT)), msg.Failed)
    assert told.category == "fenced"
    cluster.now = Timestamp(
        cluster.now + FENCED_HEARTBEATS * cluster.workers[WorkerId("w0")].settings.heartbeat
    )
    exits = [each for each in cluster.step(WorkerId("w0")) if isinstance(each, act.Exit)]
    assert [(each.category, "'out'" in each.reason) for each in exits] == [("fenced", True)]
    assert not any(isinstance(each, act.Exit) for each in cluster.step(WorkerId("w0"))), "once"


def test_a_fenced_worker_goes_on_in_the_newer_attempt() -> None:
    """A busy one hears of it later than the others have opened their sinks."""
    cluster = letters_cluster()
    cluster.step(WorkerId("w0"), ev.SinkFenced(cluster.fence, OUT))
    cluster.recover()
    cluster.now = Timestamp(
        cluster.now + FENCED_HEARTBEATS * cluster.workers[WorkerId("w0")].settings.heartbeat
    )
    cluster.run()
    assert not actions_of(cluster, act.Exit)
    cluster.check()


def test_stop_ends_it_normally() -> None:
    cluster = letters_cluster()
    assert cluster.step(WorkerId("w0"), ev.FromCoordinator(msg.Stop("enough"))) == [act.Exit("", "enough")]


@pytest.mark.parametrize(
    "event",
    [
        lambda fence: ev.SourceFailed(fence, F, "corrupt", "expired"),
        lambda fence: ev.SinkFailed(fence, OUT, "corrupt", "expired"),
        lambda fence: ev.LoadFailed(fence, "corrupt", "expired"),
    ],
)  # fmt: skip
def test_what_the_outside_cannot_do_halts_this_attempt_only(event: Callable[[Fence], ev.Event]) -> None:
    cluster = letters_cluster()
    (failed,) = messages_of(cluster.step(WorkerId("w0"), event(cluster.fence)), msg.Failed)
    assert (failed.category, failed.message) == ("corrupt", "expired")
    assert (
        cluster.step(
            WorkerId("w0"),
            ev.RecordsArrived(cluster.fence, F, P, Offset(8), ["z"], 1),
            ev.SourceEnded(cluster.fence, F),
        )
        == []
    )
    cluster.recover()
    cluster.end()
    cluster.run()
    cluster.check()


def test_a_replay_that_differs_is_a_user_error() -> None:
    lies = [0]
    graph = Graph("g")
    graph.source("s0").map(lambda p: (p, lies[0])).sink("out", key=lambda p: p[0])
    cluster = CoreCluster(graph, 2, 1).recover()
    cluster.feed(0, *"abc")
    cluster.run()
    lies[0] = 1
    cluster.recover()
    cluster.run()
    failed = cluster.heard(msg.Failed)
    assert failed and failed[0].category == "user" and "was delivered as" in failed[0].message


def test_why_an_attempt_cannot_go_on_is_said_with_each_report() -> None:
    """The first word of it may reach a coordinator that is about to go, or one that has only been greeted."""
    cluster = letters_cluster(heartbeat=1)
    failed = messages_of(
        cluster.step(WorkerId("w0"), ev.SourceFailed(cluster.fence, F, "retryable", "away")), msg.Failed
    )
    assert (
        messages_of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Failed)
        == failed[:1]
        == [msg.Failed(cluster.fence, "retryable", "away")]
    )
    cluster.recover()
    assert not messages_of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Failed)


def test_a_second_failure_of_an_attempt_is_not_told() -> None:
    cluster = letters_cluster()
    failure = ev.SourceFailed(cluster.fence, F, "corrupt", "expired")
    assert len(messages_of(cluster.step(WorkerId("w0"), failure, failure), msg.Failed)) == 1
