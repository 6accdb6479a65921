"""Errors of a manifest that does not convert: file, line and field, and what to write instead.

msgspec says what and at which `$.path`, with `[...]` for a name that is the user's; the rest is added here.

Keeps: a name is found by the error itself: with it alone, the error is the same. Does not: know any field;
`form` does.
"""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import reduce
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from flamestream.job.located import Document, Path, dotted
from flamestream.model.errors import ManifestError

ON_ERROR: Final = "write fail, or {deadLetter: SINK}"
Convert = Callable[[Any], object]
"""Plain values to a struct. Raises msgspec.ValidationError."""


def field_error(
    document: Document, message: str, form: type[msgspec.Struct], convert: Convert
) -> ManifestError:
    """The error for what msgspec says of a document that should be a `form`."""
    problem, _, at = message.partition(" - at ")
    steps = re.findall(r"\w+|\[\.\.\.\]", at.partition("$")[2])
    path = _path_of(document.value, message, steps, convert)
    named = re.search(r"(unknown|missing required) field `(.*)`", problem)
    if named is None:
        plain = problem.replace("`", "").replace("object", "mapping")
        return ManifestError(f"{document.where(path)}: {ON_ERROR if path[-1:] == ('onError',) else plain}")
    name = named[2]
    if named[1] == "missing required":
        return ManifestError(f"{document.where(path)}: the required field {name!r} is missing")
    known = _fields_at(path, form)
    there = document.where((*path, name))
    return ManifestError(
        f"{there}: unknown field{suggestion(name, known)} (fields of {dotted(path)}: {', '.join(known)})"
    )


def _path_of(value: Any, message: str, steps: Sequence[str], convert: Convert) -> Path:
    """The path of an error. Its steps, as msgspec tells them, have `[...]` for any name that is the
    user's."""
    path: tuple[str, ...] = ()
    for step in steps:
        path = (*path, *(_name_at(value, path, message, convert) if step == "[...]" else [step]))
    return path


def _name_at(value: Any, path: Sequence[str], message: str, convert: Convert) -> list[str]:
    """The name in the mapping at `path` that has the error: with it alone, the error is the same. None in a
    list."""
    there = reduce(lambda part, step: part[step], path, value)
    for name, its in there.items() if isinstance(there, dict) else ():
        try:
            convert(_replaced(value, path, {name: its}))
        except msgspec.ValidationError as error:
            if str(error) == message:
                return [name]
    return []


def _replaced(value: Any, path: Sequence[str], by: Any) -> Any:
    return {**value, path[0]: _replaced(value[path[0]], path[1:], by)} if path else by


def _fields_at(path: Path, form: type[msgspec.Struct]) -> tuple[str, ...]:
    """Names of the fields that the part at `path` can have."""
    part: Any = form
    left = list(path)
    while left:
        inner = dict(zip(part.__struct_encode_fields__, part.__struct_fields__, strict=True))[
            str(left.pop(0))
        ]
        hint = get_type_hints(part)[inner]
        if get_origin(hint) is dict:
            del left[:1]  # a name of the user's
        part = next(
            t for t in (hint, *get_args(hint)) if isinstance(t, type) and issubclass(t, msgspec.Struct)
        )
    return tuple(part.__struct_encode_fields__)


def suggestion(name: str, known: tuple[str, ...]) -> str:
    """A name that may have been meant, for the end of a message."""
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""
