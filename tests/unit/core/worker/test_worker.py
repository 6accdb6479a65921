"""A worker: what it ignores, what halts it, what it reports."""

from collections.abc import Callable
from typing import Any

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.chain import Chain
from flamestream.model.graph import Graph
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    MessageId,
    Offset,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.layout import Assignment
from flamestream.model.meta import meta_of
from flamestream.model.payload import ErrorValue, encode_items, encode_many
from flamestream.model.time import END, START, FrontId, Instant, Time, Timestamp
from support.core.core_cluster import DEAD, CoreCluster, P

OUT = SinkName("out")
F = FrontId(0)
OLD = Fence(Attempt(1), LayoutVersion(1))


def _graph() -> Graph:
    graph = Graph("g")
    reduced = graph.source("s0").reduce(
        key=lambda p: p, initial=str, combine=lambda a, p: a + p, emit=lambda a, p: (p, a)
    )
    reduced.sink("out", key=lambda p: p[0])
    return graph


def _cluster(workers: int = 2, seed: int = 1, **changes: Any) -> CoreCluster:
    cluster = CoreCluster(_graph(), workers, seed, **changes).recover()
    cluster.feed(0, *"abcabcab")
    cluster.run()
    return cluster


def _of(actions: list[act.Action], kind: type) -> list[Any]:
    return [
        action.message
        for action in actions
        if isinstance(action, act.ToldCoordinator) and isinstance(action.message, kind)
    ]


# --- fences -------------------------------------------------------------------------------------------------

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
    cluster = _cluster()
    cluster.recover()
    cluster.run()
    for name in cluster.workers:
        assert cluster.step(name, stale) == []
    cluster.feed(0, *"abc")
    cluster.end()
    cluster.run()
    cluster.check()


def test_a_recover_of_an_older_attempt_or_of_this_one_changes_nothing() -> None:
    cluster = _cluster()
    cluster.recover()
    cluster.run()
    for fence in (OLD, cluster.fence):
        again = msg.Recover(Assignment(fence, cluster.layout), {}, "key", START, Epoch(0), None)
        assert all(cluster.step(name, ev.FromCoordinator(again)) == [] for name in cluster.workers)


def test_a_frame_of_a_newer_attempt_waits_for_nobody() -> None:
    cluster = _cluster()
    newer = msg.Frame(Fence(Attempt(9), LayoutVersion(9)), 1, [msg.MinimalTime(END)])
    assert all(cluster.step(name, ev.FromPeer(WorkerId("w9"), newer)) == [] for name in cluster.workers)


# --- frames -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_every_frame_twice_is_every_frame_once(seed: int) -> None:
    cluster = CoreCluster(_graph(), 3, seed)
    cluster.spoil = lambda frame: [frame, frame]
    cluster.recover()
    cluster.feed(0, *"abcabc")
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.complete and not cluster.heard(msg.PeerLost)


def _lose_one(cluster: CoreCluster) -> None:
    lost: list[msg.Frame] = []

    def spoil(frame: msg.Frame) -> list[msg.Frame]:
        if not lost and any(isinstance(message, msg.Data) for message in frame.messages):
            lost.append(frame)
            return []
        return [frame]

    cluster.spoil = spoil
    cluster.feed(0, *"abcabcabc")
    cluster.run()
    cluster.now = Timestamp(cluster.now + 10_000_000)
    for name in list(cluster.workers):  # time passes: probes leave
        cluster.step(name, ev.Woken())
    cluster.run()
    assert lost


def test_a_lost_frame_is_told_at_once_and_with_every_report() -> None:
    cluster = _cluster(probe=1_000_000, heartbeat=1_000_000)
    _lose_one(cluster)
    told = cluster.heard(msg.PeerLost)
    assert told and "out of sequence" in told[0].reason
    cluster.check_prefix()
    loser = next(name for name, message in cluster.told if isinstance(message, msg.PeerLost))
    cluster.now = Timestamp(cluster.now + 1_000_000)
    again = _of(cluster.step(loser, ev.Woken()), msg.PeerLost)
    assert again == told[:1], "the coordinator may not have been there the first time"
    assert not cluster.workers[loser].hello("x:1").ready


def test_a_broken_link_is_told_once_a_report_and_ends_with_the_next_attempt() -> None:
    cluster = _cluster()
    name = next(iter(cluster.workers))
    broken = ev.LinkBroken(cluster.fence, WorkerId("w1"), "reset")
    assert len(_of(cluster.step(name, broken, broken), msg.PeerLost)) == 1
    assert not cluster.workers[name].hello("x:1").ready
    cluster.recover()
    cluster.run()
    assert cluster.workers[name].hello("x:1").ready


def _garbage(cluster: CoreCluster, receiver: WorkerId) -> ev.FromPeer:
    """A frame in sequence whose payloads are none."""
    sender = next(name for name in cluster.workers if name != receiver)
    sequence = cluster.workers[receiver]._inbox._sequences.get(sender, 0) + 1
    data = msg.Data(cluster.minimal, MessageId(1), [1], [meta_of(cluster.minimal, 0)], [False], b"\xc1")
    return ev.FromPeer(sender, msg.Frame(cluster.fence, sequence, [data]))


def test_payloads_that_cannot_be_decoded_end_the_attempt_as_corrupt() -> None:
    cluster = _cluster()
    (failed,) = _of(cluster.step(cluster.layout.acker, _garbage(cluster, cluster.layout.acker)), msg.Failed)
    assert failed.category == "corrupt"
    assert not cluster.workers[cluster.layout.acker].hello("x:1").ready


def test_the_next_attempt_may_stand_behind_what_ends_this_one_in_the_same_pass() -> None:
    cluster = _cluster()
    name = cluster.layout.acker
    cluster._links.clear()
    newer = Fence(Attempt(cluster.fence.attempt + 1), LayoutVersion(7))
    recover = msg.Recover(Assignment(newer, cluster.layout), {}, "key", START, Epoch(0), None)
    actions = cluster.workers[name].step(
        cluster.now, Instant(cluster.now), [_garbage(cluster, name), ev.FromCoordinator(recover)]
    )
    assert _of(actions, msg.Failed)
    assert [action.fence for action in actions if isinstance(action, act.LinkPeers)] == [newer]


# --- what ends it -------------------------------------------------------------------------------------------


def test_a_fenced_worker_gives_up_and_says_which_sink_knew() -> None:
    cluster = _cluster()
    (action,) = cluster.step(WorkerId("w0"), ev.SinkFenced(cluster.fence, OUT))
    assert isinstance(action, act.Exit) and action.category == "fenced" and "'out'" in action.reason


def test_stop_ends_it_normally() -> None:
    cluster = _cluster()
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
    cluster = _cluster()
    (failed,) = _of(cluster.step(WorkerId("w0"), event(cluster.fence)), msg.Failed)
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


# --- drain, end, reports ------------------------------------------------------------------------------------


def test_drained_it_reads_nothing_more_and_finishes_what_it_has() -> None:
    cluster = _cluster()
    cluster.say(msg.Drain(cluster.fence))
    cluster.run()
    entered = len(cluster.journals[F])
    cluster.feed(0, *"defg")
    cluster.run()
    assert len(cluster.journals[F]) == entered
    assert cluster.delivered() == cluster.expected()
    assert not any(worker.hello("x:1").ready for worker in cluster.workers.values()), (
        "a coordinator that adopts it must recover instead"
    )


def test_a_report_says_that_it_reads_nothing_more() -> None:
    cluster = _cluster(workers=1, heartbeat=1)
    assert not cluster.heard(msg.Progress)[-1].drained
    cluster.say(msg.Drain(cluster.fence))
    cluster.run()
    assert cluster.heard(msg.Progress)[-1].drained
    cluster.recover()
    assert not cluster.heard(msg.Progress)[-1].drained, "a new attempt reads again"


def test_why_an_attempt_cannot_go_on_is_said_with_each_report() -> None:
    """The first word of it may reach a coordinator that is about to go, or one that has only been greeted."""
    cluster = _cluster(heartbeat=1)
    failed = _of(
        cluster.step(WorkerId("w0"), ev.SourceFailed(cluster.fence, F, "retryable", "away")), msg.Failed
    )
    assert (
        _of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Failed)
        == failed[:1]
        == [msg.Failed(cluster.fence, "retryable", "away")]
    )
    cluster.recover()
    assert not _of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Failed)


def test_a_clock_that_is_set_back_delays_no_report_and_no_probe() -> None:
    cluster = _cluster(heartbeat=1_000, probe=1_000)
    name, instant = WorkerId("w0"), 1_000_000
    for now in (3_600_000_000, 1, 7_200_000_000, 2):
        instant += 1_000
        actions = cluster.workers[name].step(Timestamp(now), Instant(instant), [ev.Woken()])
        assert _of(actions, msg.Progress) and [
            action for action in actions if isinstance(action, act.ToPeer)
        ], now
        assert not _of(
            cluster.workers[name].step(Timestamp(now), Instant(instant + 999), [ev.Woken()]), msg.Progress
        )


def test_stamps_go_on_upwards_when_the_clock_is_set_back() -> None:
    cluster = _cluster()
    for now in (7_200_000_000, 1_000):
        cluster.now = Timestamp(now)
        cluster.feed(0, *"xyz")
        cluster.run()
    times = [entry.time for entry in cluster.journals[F]]
    assert times == sorted(set(times)) and cluster.delivered() == cluster.expected()


def test_the_end_is_told_when_everything_before_it_is_through() -> None:
    cluster = _cluster(heartbeat=1)
    assert not any(progress.ended for progress in cluster.heard(msg.Progress))
    cluster.held.add(act.Append)
    cluster.feed(0, "d")
    cluster.end()
    cluster.run()
    for name in cluster.workers:
        assert not _of(cluster.step(name, ev.Woken()), msg.Progress)[0].ended, (
            "the last run is not durable yet"
        )
    cluster.held.clear()
    cluster.run()
    for name in cluster.workers:
        (progress,) = _of(cluster.step(name, ev.Woken()), msg.Progress)
        assert progress.ended and progress.minimal == progress.settled == progress.oldest == END
    cluster.check()


def test_a_report_says_how_much_and_what_is_wrong() -> None:
    cluster = _cluster(workers=1, heartbeat=1)
    name = WorkerId("w0")
    (progress,) = _of(cluster.step(name, ev.JournalFailed(cluster.fence, F, "disk full")), msg.Progress)
    assert (progress.items_in, progress.items_out, progress.problem) == (8, 8, "disk full")
    (progress,) = _of(cluster.step(name, ev.JournalAppended(cluster.fence, F, Time(1))), msg.Progress)
    assert progress.problem == ""


def test_what_is_not_acknowledged_is_not_settled() -> None:
    cluster = _cluster(workers=1, heartbeat=1)
    cluster.held.add(act.Deliver)
    before = cluster.heard(msg.Progress)[-1]
    cluster.feed(0, "d")
    cluster.run()
    (progress,) = _of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    assert before.settled <= progress.settled < progress.minimal


def test_an_item_is_in_flight_until_its_bundle_is_acknowledged() -> None:
    cluster = _cluster(workers=1, heartbeat=1)
    before = cluster.heard(msg.Progress)[-1]
    cluster.held.add(act.Deliver)
    cluster.feed(0, "d", "e")
    cluster.run()
    (progress,) = _of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    assert progress.in_flight == 2
    assert progress.bundles == before.bundles
    cluster.held.clear()
    cluster.run()
    (progress,) = _of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    assert progress.in_flight == 0
    assert progress.bundles > before.bundles


def test_runs_and_acknowledged_bundles_are_counted_over_all_attempts() -> None:
    cluster = _cluster(workers=1, heartbeat=1)
    entered = sum(len(entries) for entries in cluster.journals.values())
    cluster.recover()
    cluster.feed(0, "d")
    cluster.run()
    (progress,) = _of(cluster.step(WorkerId("w0"), ev.Woken()), msg.Progress)
    replayed = entered
    assert progress.runs == entered + replayed + 1
    assert progress.bundles == sum(
        len(action.bundles) for _, action in cluster.done if isinstance(action, act.Deliver)
    )


def test_a_record_that_could_not_be_read_is_an_error_item() -> None:
    cluster = CoreCluster(_graph(), 2, 3, dead_letter=DEAD).recover()
    cluster.feed(0, "a", ErrorValue("files", "UnicodeDecodeError", "x.txt is not UTF-8", "docs", 1), "b")
    cluster.end()
    cluster.run()
    cluster.check()
    assert sum(map(len, cluster.delivered()[DEAD].values())) == 1


def test_a_worker_without_a_part_says_that_it_is_not_ready() -> None:
    cluster = CoreCluster(_graph(), 1)
    hello = cluster.workers[WorkerId("w0")].hello("x:1")
    assert (hello.fence, hello.ready, hello.graph) == ((0, 0), False, cluster.graph.identity)


def test_the_acker_tells_the_others_before_it_releases_its_own_results() -> None:
    cluster = CoreCluster(_graph(), 2, 1).recover()
    cluster.run()
    acker = cluster.layout.acker
    cluster.feed(0, *"abcdefgh")
    cluster.run()
    mine = [action for name, action in cluster.done if name == acker]
    told = [
        i
        for i, action in enumerate(mine)
        if isinstance(action, act.ToPeer) and _has(action.frame, msg.MinimalTime)
    ]
    delivered = [i for i, action in enumerate(mine) if isinstance(action, act.Deliver)]
    assert delivered
    assert all(
        any(isinstance(mine[i], act.Wake) for i in range(max(t for t in told if t < d), d)) for d in delivered
    )


def _has(frame: msg.Frame, kind: type) -> bool:
    return any(isinstance(message, kind) for message in frame.messages)


def test_a_second_failure_of_an_attempt_is_not_told() -> None:
    cluster = _cluster()
    failure = ev.SourceFailed(cluster.fence, F, "corrupt", "expired")
    assert len(_of(cluster.step(WorkerId("w0"), failure, failure), msg.Failed)) == 1


def test_the_loss_of_the_last_frame_shows_with_the_next_probe() -> None:
    cluster = _cluster(probe=1_000_000)
    cluster.spoil = lambda frame: []
    cluster.feed(0, "z")
    cluster.run()
    cluster.spoil = lambda frame: [frame]
    assert not cluster.heard(msg.PeerLost)
    cluster.now = Timestamp(cluster.now + 1_000_000)
    for name in list(cluster.workers):
        cluster.step(name, ev.Woken())
    cluster.run()
    assert cluster.heard(msg.PeerLost)


def test_an_invalidated_error_holds_nothing() -> None:
    cluster = CoreCluster(_graph(), 1).recover()
    cluster.run()
    worker = cluster.workers[WorkerId("w0")]
    error = ErrorValue("m.f", "ValueError", "no")
    for gone in (False, True):
        worker.error(meta_of(Time(1 << 40), 0), error, gone)
    cluster.end()
    cluster.run()
    assert cluster.complete


def test_at_least_once_delivers_again_what_is_replayed() -> None:
    cluster = CoreCluster(_graph(), 2, 1, exactly_once=False).recover()
    cluster.feed(0, *"abc")
    cluster.run()
    cluster.recover()
    cluster.run()
    assert sum(map(len, cluster.delivered()[OUT].values())) == 6
