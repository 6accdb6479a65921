"""The verdict of an audit that somebody made at a terminal, as the object of its job keeps it: in an annotation, where
the page of a cluster finds the last one.

>>> left = LeftAudit(began=1, ended=2, audit=AuditResult(clean=True, records=5))
>>> read_left(written_left(left)) == left
True

Keeps: LONGEST bytes, whatever an item is like that differs; who may edit the job may write it, and it decides nothing.
Does not: judge.
"""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flamestream.job.drills.status import AuditResult
from flamestream.model.decoding import DecodeError, from_json

ANNOTATION: Final = "flamestream.dev/audit"
LONGEST: Final = 8000
SHORT: Final = 500
"""Characters of each text of one that would be longer."""


class LeftAudit(Struct, frozen=True, kw_only=True):
    """A verdict, and when it was made: microseconds since 1970, by the clock of who asked."""

    began: int
    ended: int
    audit: AuditResult


def written_left(left: LeftAudit) -> str:
    """The annotation's value."""
    text = msgspec.json.encode(left)
    if len(text) > LONGEST:
        audit = left.audit
        shorter = replace(
            audit, first_difference=audit.first_difference[:SHORT], bounds=audit.bounds[:SHORT],
            input=audit.input[:SHORT], codes=[], definitions=[],
        )  # fmt: skip
        text = msgspec.json.encode(replace(left, audit=shorter))
    return text.decode()


def read_left(text: str) -> LeftAudit | None:
    """The verdict in an annotation's value; None: there is none, or it cannot be read."""
    try:
        return from_json(text, LeftAudit)
    except DecodeError:
        return None
