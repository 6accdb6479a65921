"""Payloads and states: what anyone may have put into a frame, a journal, a segment or a topic."""

from collections.abc import Callable, Iterator
from typing import Any

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.errors import Corrupt
from flamestream.model.kernel import kernel
from flamestream.model.payloads import encoding as reference
from flamestream.model.payloads.state import apply_state_delta, delta_state
from fuzz.target import Target, attempt
from support.payloads import Open, Packed, Slotted

VALUES: tuple[Any, ...] = (
    None,
    (1, True, 1.0, -0.0, float("nan"), "wörd", b"\xff", 2**64 - 1, -(2**63)),
    Vector(range(40)),
    Map({"a": (1, (2,)), 3: None, (): b""}),
    Set(["x", 1, b"y"]),
    Slotted("a", Open(Map()), Packed(1, Vector([Set()]))),
)
ITEMS = [(b"meta-%d" % place, value) for place, value in enumerate(VALUES)]
STATES: tuple[Any, ...] = (
    Vector(range(5)),
    Map({"a": Slotted("a", 1, ()), 2: Vector("xy")}),
    Set("ab"),
    Slotted(Vector(range(9)), 2, 3),
)
NEWER: tuple[Any, ...] = (
    STATES[0].set(1, "x").extend([()]),
    STATES[1].set("a", Slotted("a", 2, ())).set("b", 1).delete(2),
    STATES[2].add("c").discard("a"),
    Slotted(STATES[3].word.extend([1]), 2, 4),
)


def _agree(way: str, data: bytes, again: Callable[[Any], bytes]) -> None:
    """The kernel and its reference read the same, and what they read is written and read again as the
    same."""
    meant = attempt(getattr(reference, way), data, Corrupt)
    if kernel is not None:
        said = attempt(getattr(kernel, way), data, Corrupt)
        assert (said is None) == (meant is None), f"{way}: the kernel says {said!r}, its reference {meant!r}"
    else:
        said = meant
    if meant is not None:
        written = again(meant)
        assert again(said) == written, f"{way}: the kernel says {said!r}, its reference {meant!r}"
        assert again(getattr(reference, way)(written)) == written, (
            f"{way}: {meant!r} is written as something else"
        )


def payload(data: bytes) -> None:
    """One, many, items: natively and in Python."""
    _agree("decode", data, _one)
    _agree("decode_many", data, reference.encode_many)
    _agree("decode_items", data, reference.encode_items)
    parts = attempt(reference.split_items, data, Corrupt)
    if parts is not None and (items := attempt(reference.decode_items, data, Corrupt)) is not None:
        assert [meta for meta, _ in parts] == [meta for meta, _ in items]


def _one(value: Any) -> bytes:
    made = reference.encode(value)
    assert kernel is None or kernel.encode(value) == made, f"{value!r} has two encodings"
    return made


def state(data: bytes) -> None:
    """A change of a state that is at hand: the state chosen by the first byte."""
    old = STATES[data[0] % len(STATES)] if data else None
    before = reference.encode(old)
    new = attempt(lambda given: (apply_state_delta(old, given),), data[1:], Corrupt)
    assert reference.encode(old) == before, "a change has changed the old state"
    if new is not None:
        reference.check(new[0])
        change = delta_state(old, new[0])
        assert change is None or reference.encode(apply_state_delta(old, change)) == reference.encode(new[0])


def _payloads() -> Iterator[bytes]:
    yield from (reference.encode(value) for value in (*VALUES, float("nan")))
    yield reference.encode_many(VALUES)
    yield reference.encode_items(ITEMS)


def _states() -> Iterator[bytes]:
    for number, (old, new) in enumerate(zip(STATES, NEWER, strict=True)):
        yield bytes([number]) + (delta_state(old, new) or b"")


TARGETS = (Target("payload", payload, _payloads, runs=20_000), Target("state", state, _states))
