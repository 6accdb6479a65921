"""Outbox and inbox: one ack a message, one frame a peer, no frame twice."""

from flamestream.core.dataflow.outbox import MOST_ITEMS, Inbox, Outbox
from flamestream.core.protocol.messages import Acks, Data, MinimalTime
from flamestream.model import payload as codec
from flamestream.model.ids import Attempt, Fence, LayoutVersion, MessageId, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.meta import meta_of
from flamestream.model.time import Time

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")
FENCE = Fence(Attempt(1), LayoutVersion(1))


def _outbox(me: WorkerId = A) -> Outbox:
    return Outbox(FENCE, me, Layout(LayoutVersion(1), (A, B, C), (A,), A))


def _send(outbox: Outbox, owner: WorkerId, cause: int, value: object, tombstone: bool = False) -> None:
    outbox.send(owner, Time(cause), 3, meta_of(Time(cause), 0), value, tombstone)


def test_items_of_one_cause_for_one_peer_are_one_message_in_order() -> None:
    outbox = _outbox()
    for value, gone in (("x", False), ("x", True), ("y", False)):
        _send(outbox, B, 5, value, gone)
    outbox.acks()
    ((data,),) = [action.frame.messages for action in outbox.frames()]
    assert isinstance(data, Data)
    assert (data.cause, data.vertices, data.tombstones) == (5, [3, 3, 3], [False, True, False])
    assert codec.decode_many(data.payloads) == ["x", "x", "y"]


def test_an_ack_is_what_was_received_xor_what_was_sent_under_the_cause() -> None:
    outbox = _outbox()
    outbox.received(Time(5), MessageId(77))
    _send(outbox, B, 5, "x")
    _send(outbox, C, 5, "y")
    _send(outbox, C, 6, "z")
    acks = outbox.acks()
    sent = {(a.peer, m.cause): m.id for a in outbox.frames() for m in a.frame.messages if isinstance(m, Data)}
    assert acks == Acks([5, 6], [77 ^ sent[B, Time(5)] ^ sent[C, Time(5)], sent[C, Time(6)]])
    assert outbox.acks() is None


def test_messages_of_several_workers_and_attempts_never_share_an_id() -> None:
    ids = set()
    for attempt in (1, 2):
        for me in (A, B):
            outbox = Outbox(
                Fence(Attempt(attempt), LayoutVersion(1)), me, Layout(LayoutVersion(1), (A, B, C), (A,), A)
            )
            for cause in range(3):
                _send(outbox, C, cause, "x")
            outbox.acks()
            ids |= {m.id for action in outbox.frames() for m in action.frame.messages if isinstance(m, Data)}
    assert len(ids) == 12


def test_a_message_is_bounded() -> None:
    outbox = _outbox()
    for number in range(MOST_ITEMS + 1):
        _send(outbox, B, 5, number)
    acks = outbox.acks()
    (action,) = outbox.frames()
    first, second = action.frame.messages
    assert isinstance(first, Data) and isinstance(second, Data)
    assert (len(first.metas), len(second.metas)) == (MOST_ITEMS, 1)
    assert codec.decode_many(first.payloads) + codec.decode_many(second.payloads) == list(
        range(MOST_ITEMS + 1)
    )
    assert acks == Acks([5], [first.id ^ second.id])


def test_what_was_closed_early_is_acked_with_the_rest() -> None:
    outbox = _outbox()
    _send(outbox, B, 5, "x")
    outbox.close()
    ((early,),) = [action.frame.messages for action in outbox.frames()]
    _send(outbox, B, 5, "y")
    acks = outbox.acks()
    ((late,),) = [action.frame.messages for action in outbox.frames()]
    assert isinstance(early, Data) and isinstance(late, Data) and early.id != late.id
    assert acks == Acks([5], [early.id ^ late.id])


def test_frames_are_numbered_by_peer_without_gaps() -> None:
    outbox = _outbox()
    seen = []
    for peers in ([B], [B, C], [C]):
        for peer in peers:
            outbox.tell(peer, MinimalTime(Time(1)))
        seen += [(action.peer, action.frame.sequence, action.frame.fence) for action in outbox.frames()]
    assert seen == [(B, 1, FENCE), (B, 2, FENCE), (C, 1, FENCE), (C, 2, FENCE)]
    assert outbox.frames() == []


def test_a_probe_is_an_empty_frame_unless_there_is_one_anyway() -> None:
    outbox = _outbox()
    outbox.tell(B, MinimalTime(Time(1)))
    outbox.probe([B, C])
    assert [(action.peer, len(action.frame.messages)) for action in outbox.frames()] == [(B, 1), (C, 0)]


def test_an_inbox_admits_each_frame_once_and_in_order() -> None:
    inbox = Inbox()
    assert [inbox.admits(B, sequence) for sequence in (1, 1, 2, 1, 3)] == [True, False, True, False, True]
    assert inbox.admits(C, 1)
    assert not inbox.lost


def test_behind_a_gap_nothing_of_that_peer_is_admitted() -> None:
    inbox = Inbox()
    assert [inbox.admits(B, sequence) for sequence in (1, 3, 2, 3, 4)] == [True, False, False, False, False]
    assert inbox.lost == {B}
    assert inbox.admits(C, 1)
