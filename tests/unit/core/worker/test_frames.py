"""Frames between workers: one that comes twice counts once, one that is lost or spoilt is told, and minimal
time goes out before the results that it releases."""

import pytest

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    MessageId,
    WorkerId,
)
from flamestream.model.layout import Assignment
from flamestream.model.meta import meta_of
from flamestream.model.time import START, Instant, Timestamp
from support.core.core_cluster import CoreCluster
from support.core.letters import letters, letters_cluster, messages_of


@pytest.mark.parametrize("seed", range(10))
def test_every_frame_twice_is_every_frame_once(seed: int) -> None:
    cluster = CoreCluster(letters(), 3, seed)
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
    cluster = letters_cluster(probe=1_000_000, heartbeat=1_000_000)
    _lose_one(cluster)
    told = cluster.heard(msg.PeerLost)
    assert told and "out of sequence" in told[0].reason
    cluster.check_prefix()
    loser = next(name for name, message in cluster.told if isinstance(message, msg.PeerLost))
    cluster.now = Timestamp(cluster.now + 1_000_000)
    again = messages_of(cluster.step(loser, ev.Woken()), msg.PeerLost)
    assert again == told[:1], "the coordinator may not have been there the first time"
    assert not cluster.workers[loser].hello("x:1").ready


def test_the_loss_of_the_last_frame_shows_with_the_next_probe() -> None:
    cluster = letters_cluster(probe=1_000_000)
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


def test_a_broken_link_is_told_once_a_report_and_ends_with_the_next_attempt() -> None:
    cluster = letters_cluster()
    name = next(iter(cluster.workers))
    broken = ev.LinkBroken(cluster.fence, WorkerId("w1"), "reset")
    assert len(messages_of(cluster.step(name, broken, broken), msg.PeerLost)) == 1
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
    cluster = letters_cluster()
    (failed,) = messages_of(
        cluster.step(cluster.layout.acker, _garbage(cluster, cluster.layout.acker)), msg.Failed
    )
    assert failed.category == "corrupt"
    assert not cluster.workers[cluster.layout.acker].hello("x:1").ready


def test_the_next_attempt_may_stand_behind_what_ends_this_one_in_the_same_pass() -> None:
    cluster = letters_cluster()
    name = cluster.layout.acker
    cluster._links.clear()
    newer = Fence(Attempt(cluster.fence.attempt + 1), LayoutVersion(7))
    recover = msg.Recover(Assignment(newer, cluster.layout), {}, "key", START, Epoch(0), None)
    actions = cluster.workers[name].step(
        cluster.now, Instant(cluster.now), [_garbage(cluster, name), ev.FromCoordinator(recover)]
    )
    assert messages_of(actions, msg.Failed)
    assert [action.fence for action in actions if isinstance(action, act.LinkPeers)] == [newer]


def test_the_acker_tells_the_others_before_it_releases_its_own_results() -> None:
    cluster = CoreCluster(letters(), 2, 1).recover()
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
