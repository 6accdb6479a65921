"""The last verdict of each kind that a command has given on a job of this machine, left in its run folder: for whoever
looks later (the page).

Does not: judge; or keep one that went before.
"""

import time
from typing import Any, Final, Literal

import msgspec

from flamestream.model.decoding import DecodeError, from_json
from flamestream.node.run_folder import RunFolder

Kind = Literal["audit", "drill"]
KINDS: Final[tuple[Kind, ...]] = ("audit", "drill")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The document that a command has printed, and when."""

    began: int
    """Microseconds since 1970."""
    ended: int
    code: int
    """Its exit code."""
    answer: Any
    """The document that it prints with --json."""


def leave(folder: RunFolder, kind: Kind, began: int, code: int, answer: object) -> None:
    """Leave a verdict that has just been given, in the place of the one before. A job that never ran has no place."""
    if not folder.path.is_dir():
        return
    found = Verdict(began=began, ended=now(), code=code, answer=answer)
    folder.write(file_of(kind), found)


def left(folder: RunFolder, kind: Kind) -> Verdict | None:
    """The verdict that was left last; None: there is none, or it is of another release."""
    try:
        return from_json((folder.path / file_of(kind)).read_bytes(), Verdict)
    except (FileNotFoundError, DecodeError):
        return None


def file_of(kind: Kind) -> str:
    """The name of its file."""
    return f"{kind}.json"


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
