"""Reduce in its unfused form: map + grouping(2) + combine + cycle, as the paper draws it (EDBT 2018, Fig. 5).

Items and accumulators of a key interleave in one grouping: [x1, a1, x2, a2, ...]. The window (a1, x2)
combines to a2, which goes round the cycle; the window (x2, a2) and the speculative (x1, x2) yield nothing.
Kept as the tested equal of core/dataflow/reduce.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from flamestream.model.errors import PayloadError
from flamestream.model.failure import FATAL, blame, called
from flamestream.model.payload import check, payload_type
from flamestream.model.state_names import Named, short
from flamestream.model.stream import Stream
from flamestream.model.vertex import Function, name_of


@payload_type
@dataclass(frozen=True, slots=True)
class Contribution:
    """An item on its way into the grouping."""

    key: Any
    payload: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Accumulated:
    """An accumulator on its way round."""

    key: Any
    accumulator: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Unbegun:
    """In the place of an accumulator: `initial` is still to be called."""


UNBEGUN: Final = Unbegun()


@payload_type
@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of combining an item; `failed` if that raised, and then the accumulator is the one
    before."""

    key: Any
    accumulator: Any
    payload: Any
    failed: bool


def unfused_reduce(
    stream: Stream[Any], key: Function, initial: Function, combine: Function, emit: Function | None,
    named: Named,
) -> Stream[Any]:  # fmt: skip
    """Results of `Stream.reduce`, from the elementary operations."""
    # An accumulator goes round once: the window that it ends yields nothing.
    back = stream.graph.loop(f"reduce {name_of(combine)}", max_iterations=1)
    window = stream.map(_contribution(key)).merge(back).group(2, key=_of_members(combine, key), **named)
    steps = window.flat_map(_combined(initial, combine))
    # Before the results' edge (!): the accumulator ranks first, so a result that comes back by an outer loop
    # finds it.
    back.close(steps.map(_around))
    return steps.map(_emitted(initial, combine, emit))


def _contribution(key: Function) -> Callable[[Any], Contribution]:
    def contribution(payload: Any) -> Contribution:
        return Contribution(key(payload), payload)

    contribution.written = name_of(key)  # type: ignore[attr-defined]
    return contribution


def _of_members(combine: Function, key: Function) -> Callable[[Contribution | Accumulated], Any]:
    def key_of(member: Contribution | Accumulated) -> Any:
        return member.key

    key_of.written = f"{short(combine)} and {short(key)}"  # type: ignore[attr-defined]
    return key_of


def _around(step: Step) -> Accumulated:
    return Accumulated(step.key, step.accumulator)


def _combined(initial: Function, combine: Function) -> Callable[[tuple[Any, ...]], Iterator[Step]]:
    folded = _folded(initial, combine)

    def combined(window: tuple[Contribution | Accumulated, ...]) -> Iterator[Step]:
        newest, before = window[-1], window[-2] if len(window) > 1 else None
        if isinstance(newest, Contribution) and not isinstance(before, Contribution):
            accumulator = UNBEGUN if before is None else before.accumulator
            try:
                step = Step(newest.key, folded(accumulator, newest.payload), newest.payload, False)
            except FATAL:
                raise
            except Exception:  # noqa: BLE001 (the emitting branch raises it again, where it becomes an error item)
                step = Step(newest.key, accumulator, newest.payload, True)
            yield step

    combined.written = name_of(combine)  # type: ignore[attr-defined]
    return combined


def _folded(initial: Function, combine: Function) -> Callable[[Any, Any], Any]:
    """The fold of one item; UNBEGUN stands for what `initial` gives. Raises what is to be said of the item."""

    def folded(before: Any, payload: Any) -> Any:
        accumulator = called(initial) if type(before) is Unbegun else before
        after = called(combine, accumulator, payload)
        try:
            check(after)
        except PayloadError as error:
            raise blame(combine, error, payload) from error
        return after

    return folded


def _emitted(initial: Function, combine: Function, emit: Function | None) -> Callable[[Step], Any]:
    folded = _folded(initial, combine)

    def emitted(step: Step) -> Any:
        if step.failed:
            folded(step.accumulator, step.payload)
        return step.accumulator if emit is None else emit(step.accumulator, step.payload)

    emitted.written = name_of(combine if emit is None else emit)  # type: ignore[attr-defined]
    return emitted
