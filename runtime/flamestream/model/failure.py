"""Failures: what a user's function raised, as the error value that an item becomes.

It must be the same bytes wherever the call is made again (another worker, a replay, the reference
interpreter), so it names modules and lines but no folder, and leaves out whoever called the function.

>>> def halved(n): return n // 0
>>> try: halved(7)
... except ZeroDivisionError as error: made = failure(halved, error, 7)
>>> made.function, made.error, made.payload
('flamestream.model.failure.halved', 'ZeroDivisionError', '7')

Does not: know where the item came from (`located` adds that).
"""

import traceback
from dataclasses import dataclass, replace
from typing import Any, Final

from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads.registry import PLANS
from flamestream.model.quoted import quoted
from flamestream.model.vertex import Function, name_of

SHOWN: Final = 200
"""Characters of a payload that an error value quotes."""
NAME: Final = 200
"""Characters of an exception's name."""
MESSAGE: Final = 2_000
"""Characters of an exception's text, which may hold the whole payload."""
FRAMES: Final = 8
"""Calls of a traceback that are kept, the innermost."""
WAY_OUT: Final = (
    "Mend the function or the input; or set onError: {deadLetter: SINK}, and such items go to that sink"
)


_NOTHING: Final = object()
FATAL: Final = (MemoryError, RecursionError)
"""Exceptions of a user's function that say nothing about the record: failures of the machine."""


def noted(error: BaseException, function: Function, payload: Any) -> None:
    """Say with a FATAL error whose function met it, and with what."""
    error.add_note(f"{name_of(function)} was given {quoted(shortened(payload))}")


class Raised(Exception):
    """An error of a user's function that a function of ours had called: messages name the user's."""

    def __init__(self, function: Function, error: Exception) -> None:
        super().__init__(f"{name_of(function)} raised {error}")
        self.function, self.error = function, error
        self.given: Any = _NOTHING
        """The payload that the user's function was given, where ours was given another."""


def called(function: Function, *arguments: Any) -> Any:
    """The result of a user's function. Raises Raised, so that whatever it raises is blamed on it, whoever
    calls it."""
    try:
        return function(*arguments)
    except Exception as error:
        blamed = blame(function, error, arguments[-1] if arguments else "nothing")
        if blamed is error:
            raise
        raise blamed from error


def blame(function: Function, error: Exception, given: Any) -> Exception:
    """The exception that is raised instead of a user's function's, or that one itself: if it is FATAL, or of a
    user's function within this one, which is the one to blame."""
    if isinstance(error, FATAL):
        noted(error, function, given)
    return error if isinstance(error, (*FATAL, Raised)) else Raised(function, error)


class Failed(Exception):
    """A function that was called elsewhere has failed: what its item becomes is known."""

    def __init__(self, error: ErrorValue) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class _Named:
    """A function of which only the name is known any more."""

    written: str

    def __call__(self, *_: Any) -> Any:
        raise AssertionError(f"{self.written} was called already")


def raised_before(function: str, error: str, message: str) -> Raised:
    """The error of a function, made again from names and text, to be raised where it becomes an error
    item."""
    return Raised(_Named(function), type(error, (Exception,), {})(message))


def failure(function: Function, error: BaseException, payload: Any) -> ErrorValue:
    """The error value that a failed call of `function` for `payload` becomes."""
    if type(error) is Failed:
        return error.error
    if type(error) is Raised:
        payload = payload if error.given is _NOTHING else error.given
        function, error = error.function, error.error
    return ErrorValue(
        name_of(function),
        type(error).__name__[:NAME],
        said(error),
        payload=shortened(payload),
        traceback=_frames(error),
    )


def said(error: BaseException) -> str:
    """An exception's text, in at most about MESSAGE characters."""
    try:
        text = str(error)
    except Exception as problem:  # noqa: BLE001 (a user's __str__)
        text = f"(its __str__ raised {type(problem).__name__})"
    return text if len(text) <= MESSAGE else f"{text[:MESSAGE]}... ({len(text):,} characters)"


def located(error: ErrorValue, source: str, place: tuple[str, int] | None, operation: int = -1) -> ErrorValue:
    """The error with where its item came from: `place` is partition and offset of its record, if that is
    known."""
    partition, offset = place or ("", -1)
    return replace(error, source=source, partition=partition, offset=offset, operation=operation)


def told(error: ErrorValue, where: str, graph: Graph) -> str:
    """The message of an error that ends a job, with users' data marked in it. `where` names the record that
    led to it."""
    ours = error.error == UserError.__name__  # what we say of a function names it already
    said = quoted(error.message)
    text = f"{said} ({where})" if ours else f"{error.function} raised {error.error}: {said} ({where})"
    if error.operation >= 0:
        vertex = graph.vertices[error.operation]
        text += (
            f"\n  operation {error.operation}, {vertex.kind.value} of {vertex.place}, was given "
            f"{quoted(error.payload or 'nothing')}"
        )
    return "\n".join([text, *(f"  {frame}" for frame in error.traceback), WAY_OUT])


def shortened(value: Any, room: int = SHOWN) -> str:
    """A payload in at most about `room` characters, whatever its size."""
    text = _text(value, room)
    return text if len(text) <= room + 30 else f"{text[:room]}..."


def _text(value: Any, room: int) -> str:
    if isinstance(value, str | bytes):
        more = (
            f"... ({len(value):,} {'characters' if isinstance(value, str) else 'bytes'})"
            if len(value) > room
            else ""
        )
        return f"{value[:room]!r}{more}"
    plan = PLANS.get(type(value))
    if plan is None or plan.members is None or (plan.labels is None and type(value) is not tuple):
        return repr(value)
    shown, left = list[str](), room
    for number, member in enumerate(plan.members(value)):
        if left <= 0:
            shown.append("...")
            break
        part = shortened(member, left)
        shown.append(part if plan.labels is None else f"{plan.labels[number]}={part}")
        left -= len(part)
    if plan.labels is not None:
        return f"{type(value).__name__}({', '.join(shown)})"
    return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"


def _frames(error: BaseException) -> tuple[str, ...]:
    """`module.py:line in function` of the calls in the user's code and beyond, the innermost last; our own
    are left out."""
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", "?"))
        if module.partition(".")[0] != "flamestream":
            found.append(f"{module.replace('.', '/')}.py:{line} in {frame.f_code.co_qualname}")
    return tuple(found[-FRAMES:])
