"""Who is connected, and who of a layout is lost."""

from flamestream.core.coordinator.membership import Membership
from flamestream.core.protocol.messages import Hello
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.time import Instant

A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")


def members(**connected_at: int) -> Membership:
    membership = Membership()
    for worker, now in connected_at.items():
        membership.connect(Hello(WorkerId(worker), "", NO_FENCE, False, "", ""), Instant(now))
    return membership


def test_spares_are_those_without_a_part_the_liveliest_first() -> None:
    membership = members(a=1, b=2, c=3)
    membership.heard(B, Instant(9))
    assert membership.spares([A]) == [B, C]


def test_the_lost_are_lost_since_the_first_of_them_left() -> None:
    membership = members(a=1, b=1, c=1)
    membership.leave(B, Instant(5))
    membership.leave(C, Instant(7))
    assert membership.lost([A, B, C]) == [B, C]
    assert membership.lost_since([A, B, C], Instant(9)) == 5
    assert membership.lost_since([A], Instant(9)) == 9


def test_one_that_is_gone_is_not_waited_for_until_it_is_there_again() -> None:
    membership = members(a=1, b=1)
    membership.leave(A, Instant(2))
    assert not membership.all_gone([A, B])
    membership.gone(A, Instant(3))
    assert membership.all_gone([A, B])
    assert membership.lost_since([A], Instant(9)) == 2


def test_what_left_is_forgotten_with_its_layout() -> None:
    membership = members(a=1, b=1)
    membership.gone(A, Instant(2))
    membership.forget_all_but([B])
    assert not membership.all_gone([A])
    assert membership.lost_since([A], Instant(9)) == 9
