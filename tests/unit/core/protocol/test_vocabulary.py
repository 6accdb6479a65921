"""The digest of all messages: each change of them is another one, whoever makes it."""

import msgspec
import pytest

from flamestream.core.protocol.messages import Frame, PeerMessage
from flamestream.core.protocol.vocabulary import described, digest_of, vocabulary


def digest(kind: object) -> str:
    return digest_of(described(kind))


class Told(msgspec.Struct, array_like=True, tag=True):
    time: int
    of: list[int]


def changed(*fields: object, name: str = "Told", array_like: bool = True, tag: str | bool = True) -> type:
    return msgspec.defstruct(name, fields, array_like=array_like, tag=tag, module=__name__)  # type: ignore[arg-type]


SAME = (("time", int), ("of", list[int]))


def test_the_same_messages_have_the_same_digest() -> None:
    assert digest(changed(*SAME)) == digest(Told)


@pytest.mark.parametrize(
    "other",
    [
        changed(*SAME, ("more", int, 0)),
        changed(*reversed(SAME)),
        changed(("time", float), SAME[1]),
        changed(SAME[0], ("of", list[str])),
        changed(("at", int), SAME[1]),
        changed(*SAME, name="Other"),
        changed(*SAME, array_like=False),
        changed(*SAME, tag="Heard"),
        changed(SAME[0], ("of", dict[int, int])),
    ],
    ids=[
        "a field more", "another order", "another type", "of other parts", "another field", "another name", "a map",
        "another tag", "a dictionary",
    ],
)  # fmt: skip
def test_another_message_has_another(other: type) -> None:
    assert digest(other) != digest(Told)


def test_one_more_among_several_is_another_in_whatever_order_they_stand() -> None:
    first, second = changed(*SAME, name="A"), changed(*SAME, name="B")
    assert digest(first | second) == digest(second | first) != digest(first)


def test_what_messages_are_made_of_counts() -> None:
    inner = changed(("x", int), name="Inner", tag=False)
    other = changed(("x", int), ("y", int, 0), name="Inner", tag=False)
    assert digest(changed(("of", list[inner]))) != digest(changed(("of", list[other])))  # type: ignore[valid-type]


def test_that_of_a_release_is_of_all_messages_between_workers() -> None:
    classes = {words.rpartition(".")[2] for words in described(Frame)}
    assert {each.__name__ for each in PeerMessage.__args__} <= classes
    assert vocabulary() == digest(Frame)
