"""The edge to user code: calls a user's function, checks what it returns, and turns what it raises into an error item.

An error is an item: it travels, can be invalidated, and is acted on only below minimal time, because speculation may raise where the
true order does not (!). MemoryError and RecursionError are failures of the worker and pass through: they say nothing about the record.

In debug mode every function runs twice: both results must be equal, and its input must encode as before.

Keeps: whatever is sent locally equals decode(encode(it)), because `payload.check` refuses everything else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.graph import Function, Vertex, name_of
from flamestream.model.payload import ErrorValue

check = codec.check
Fold = Callable[[Any, Any, bool], tuple[Any, Any]]
"""(accumulator before, payload, is it the first) -> (accumulator after, result)."""
FATAL = (MemoryError, RecursionError)


def error_of(function: Function, error: Exception) -> ErrorValue:
    """What a failed call of `function` becomes."""
    return ErrorValue(name_of(function), type(error).__name__, str(error))


def mapped(vertex: Vertex, debug: bool) -> Callable[[Any], Any]:
    """payload -> result or ErrorValue, for MAP."""
    function = observed(vertex.function, debug)

    def call(payload: Any) -> Any:
        try:
            result = function(payload)
            check(result)
        except FATAL:
            raise
        except Exception as error:
            return error_of(function, error)
        return result

    return call


def flat_mapped(vertex: Vertex, debug: bool) -> Callable[[Any], list[Any] | ErrorValue]:
    """payload -> all results, or one ErrorValue, for FLAT_MAP."""
    function = observed(vertex.function, debug)

    def call(payload: Any) -> list[Any] | ErrorValue:
        try:
            results = list(function(payload))
            for result in results:
                check(result)
        except FATAL:
            raise
        except Exception as error:
            return error_of(function, error)
        return results

    return call


def filtered(vertex: Vertex, debug: bool) -> Callable[[Any], bool | ErrorValue]:
    """payload -> does it stay, for FILTER."""
    function = observed(vertex.function, debug)

    def call(payload: Any) -> bool | ErrorValue:
        try:
            return bool(function(payload))
        except FATAL:
            raise
        except Exception as error:
            return error_of(function, error)

    return call


def keyed(function: Function | None, debug: bool) -> Callable[[Any], bytes | ErrorValue]:
    """payload -> canonical encoding of its key (of itself if there is no key function)."""
    if function is None:
        return codec.encode
    key = observed(function, debug)
    encode = codec.encode

    def call(payload: Any) -> bytes | ErrorValue:
        try:
            return encode(key(payload))
        except FATAL:
            raise
        except Exception as error:
            return error_of(key, error)

    return call


def folded(vertex: Vertex, debug: bool) -> Fold:
    """One step of a REDUCE. A failed `combine` leaves the accumulator; a failed `emit` does not undo it."""
    assert vertex.combine is not None and vertex.initial is not None
    initial, combine = observed(vertex.initial, debug), observed(vertex.combine, debug)
    emit = None if vertex.emit is None else observed(vertex.emit, debug)
    missing = object()

    def call(before: Any, payload: Any, first: bool) -> tuple[Any, Any]:
        if first or type(before) is Nothing:
            try:
                before = initial()
            except FATAL:
                raise
            except Exception as error:
                return NOTHING, error_of(initial, error)
        after = missing
        try:
            after = combine(before, payload)
            check(after)
            if emit is None:
                return after, after
            result = emit(after, payload)
            check(result)
        except FATAL:
            raise
        except Exception as error:
            failed_emit = after is not missing and codec.is_payload(after)
            return (after, error_of(emit or combine, error)) if failed_emit else (before, error_of(combine, error))
        return after, result

    return call


@codec.payload_type
@dataclass(frozen=True, slots=True)
class Nothing:
    """The accumulator of a key whose `initial` raised."""


NOTHING = Nothing()


def observed(function: Function | None, debug: bool) -> Function:
    """The function itself; in debug mode, one that runs it twice and compares."""
    assert function is not None
    if not debug:
        return function

    def twice(*arguments: Any) -> Any:
        before = [codec.encode(argument) for argument in arguments]
        results = [_settled(function(*arguments)) for _ in range(2)]
        if [codec.encode(argument) for argument in arguments] != before:
            raise UserError(f"{name_of(function)} changes its input: functions must leave payloads as they are; build a new value")
        if _encoded(results[0]) != _encoded(results[1]):
            raise UserError(f"{name_of(function)} gave two results for one input: functions must not depend on clock, randomness or outside state")
        return results[0]

    twice.__module__, twice.__qualname__ = getattr(function, "__module__", "?"), getattr(function, "__qualname__", "?")
    return twice


def _settled(result: Any) -> Any:
    return list(result) if hasattr(result, "__next__") else result


def _encoded(result: Any) -> bytes:
    return codec.encode(tuple(result) if isinstance(result, list) else result)
