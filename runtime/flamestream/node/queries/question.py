"""Question: a query as a client of the door writes it in a request.

Keeps: whatever is wrong with a request is said to the client. Does not: know what a graph has (door.py).
"""

from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from msgspec.structs import replace

from flamestream.core.protocol.queries import MOST_LOOKUPS
from flamestream.model.decoding import DecodeError, json_decoder, msgpack_decoder
from flamestream.model.errors import PayloadError
from flamestream.model.payloads.codec import decode, encode
from flamestream.net.http_exchange import Request

ENCODED: Final = "application/msgpack"


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST."""

    read: list[tuple[str, Any]] = []
    """Names, each with a key: as JSON has it, or as it is encoded."""
    at: str = "strict"
    at_least: str = "0"
    unlike: list[Any] = []
    """The state of the one key that the client knows, null for none: it waits for another."""
    scan: str = ""
    """Instead: the name whose keys are all meant,"""
    prefix: str | None = None
    """if they are texts that begin so,"""
    limit: int = MOST_LOOKUPS
    """but no more than so many,"""
    cursor: str = ""
    """behind where an earlier answer ended."""


_json: Final = json_decoder(Asked)
_encoded: Final = msgpack_decoder(Asked)


class Refused(Exception):
    """A request that gets no answer: its status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def asked_by(request: Request, name: str, key: str) -> Asked:
    """A key of a path. Raises Refused."""
    return Asked([(name, key)], **_given(request, "at", "at_least"))


def scan_by(request: Request, name: str) -> Asked:
    """A scan of a path. Raises Refused."""
    given = _given(request, "at", "at_least", "prefix", "limit", "cursor")
    limit = given.pop("limit", str(MOST_LOOKUPS))
    if not limit.isdecimal():
        raise Refused(400, f"limit is a number of keys, not {limit!r}")
    return Asked(scan=name, limit=int(limit), **given)


def _given(request: Request, *known: str) -> dict[str, Any]:
    given = {word: values[-1] for word, values in parse_qs(request.query).items()}
    if unknown := given.keys() - set(known):
        raise Refused(400, f"{', '.join(sorted(unknown))} means nothing here: there are {', '.join(known)}")
    return given


def asked_in(body: bytes, *, encoded: bool) -> Asked:
    """A body. Raises Refused."""
    try:
        asked = _encoded(body) if encoded else _json(body)
        key_of = decode if encoded else _hashable
        known = (
            asked.unlike
            if encoded
            else [None if each is None else encode(_hashable(each)) for each in asked.unlike]
        )
        return replace(asked, read=[(name, key_of(key)) for name, key in asked.read], unlike=known)
    except (DecodeError, PayloadError, TypeError) as error:
        raise Refused(
            400, f'the body is like {{"read": [["accounts", "ann"]], "at": "strict"}}: {error}'
        ) from error


def _hashable(key: Any) -> Any:
    """A key of JSON as a payload: a list is a tuple."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
