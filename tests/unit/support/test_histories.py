"""The checker of histories finds each kind of damage, and nothing where there is none."""

from collections.abc import Sequence

import pytest

from support.histories.history import Operation, Outcome, Put, Transfer, verdict

History = list[Operation]


def opened() -> History:
    """Three accounts, each with 10."""
    return [Operation(0, 1, puts=Put(name, 10)) for name in "abc"]


def moved(
    call: int, back: int | None, way: str, amount: int, left: int | None, session: str = "", **needs: int
) -> Operation:
    """A transfer, as in "ab", that has left so much; None: it was refused."""
    outcome: Outcome = "refused" if left is None else "committed"
    return Operation(call, back, session, needs, Transfer(way[0], way[1], amount), outcome, left or 0)


def read(
    call: int, back: int, session: str = "", /, needs: dict[str, int] | None = None, **seen: int
) -> Operation:
    """An answer."""
    return Operation(call, back, session, needs or {}, reads=seen)


def whole() -> History:
    """Two writers, whose transfers overlap, and somebody who reads."""
    return [
        *opened(),
        moved(2, 6, "ab", 3, 7, "one"),
        moved(3, 8, "bc", 12, 1, "two"),  # only behind the other
        read(7, 9, "eve", a=7, b=1, c=22),
        moved(10, 12, "ac", 8, None, "one"),
        read(11, 13, "eve", a=7, b=1, c=22),
        moved(14, 20, "ca", 2, 20, "one"),
        read(15, 16, "eve", a=9, c=20),
        read(17, 18, "eve", a=9, c=20),
        Operation(19, None, "two", moves=Transfer("b", "a", 1)),
    ]


def with_(*others: tuple[int, Operation]) -> History:
    """The same but for these."""
    found = whole()
    for place, other in others:
        found[place] = other
    return found


def test_a_whole_history_is_right() -> None:
    assert verdict(whole()).word == "Ok"


@pytest.mark.parametrize(
    ("damage", "history"),
    [
        ("a stale read, given as a strict one", with_((8, read(11, 13, a=10, b=10, c=10)))),
        ("a read that goes back behind another", with_((10, read(17, 18, a=7, c=22)))),
        ("a torn read of two accounts", with_((5, read(7, 9, a=10, b=1)))),
        ("a lost update", with_((4, moved(3, 8, "bc", 12, -2)), (5, read(7, 9, a=7, b=-2, c=22)))),
        ("an update that nobody sees", with_((8, read(11, 13, a=7, b=13, c=10)))),
        ("a doubled transfer", with_((5, read(7, 9, a=4, b=4, c=22)))),
        ("a transfer of which half is there", with_((5, read(7, 9, a=7, b=10, c=10)))),
        ("a refused transfer that was possible", with_((6, moved(10, 12, "ac", 7, None)))),
        ("a committed transfer that was not possible", with_((6, moved(10, 12, "ac", 8, -1)))),
        ("a receipt of another balance", with_((3, moved(2, 6, "ab", 3, 8)))),
        ("a read of the future", with_((5, read(7, 9, a=9, b=1, c=20)))),
    ],
)  # fmt: skip
def test_damage_is_found(damage: str, history: History) -> None:
    found = verdict(history)
    assert (found.word, "no place for" in found.told) == ("Illegal", True), damage


def stale(*reads: Operation) -> History:
    """A transfer that is through, and what is read behind it from the beginning of time."""
    return [*opened(), moved(2, 3, "ab", 1, 9, "one"), moved(4, 5, "ab", 1, 8, "one"), *reads]


@pytest.mark.parametrize(
    ("promise", "kept", "broken"),
    [
        (
            "what was asked for by at_least",
            [read(0, 9, "eve", {"one": 1}, a=9)],
            [read(0, 9, "eve", {"one": 2}, a=9)],
        ),
        (
            "what the same client has seen",
            [read(0, 9, "eve", a=9), read(0, 11, "eve", {"eve": 1}, a=9)],
            [read(0, 9, "eve", a=8), read(0, 11, "eve", {"eve": 1}, a=9)],
        ),
        (
            "no two moments in one answer",
            [read(0, 9, "eve", a=9, b=11)],
            [read(0, 9, "eve", a=9, b=10)],
        ),
    ],
)
def test_a_stale_answer_may_be_old_but_not_older_than(
    promise: str, kept: Sequence[Operation], broken: Sequence[Operation]
) -> None:
    assert verdict(stale(*kept)).word == "Ok", promise
    assert verdict(stale(*broken)).word == "Illegal", promise


def test_what_was_acknowledged_is_before_what_is_sent_then() -> None:
    def judge(**needs: int) -> str:
        history = [
            Operation(0, 1, puts=Put("a", 5)),
            Operation(2, 30, "one", moves=Transfer("a", "b", 5), outcome="refused"),
            Operation(20, 30, "two", needs, Transfer("a", "b", 5), "committed"),
        ]
        return verdict(history).word

    assert judge() == "Ok"
    assert judge(one=1) == "Illegal"


def test_no_history_is_no_proof_of_anything_but_says_so() -> None:
    assert verdict([]).word == "Ok"
