"""The legacy of a shadow: place and state with which another process goes on, in the store of the job beside it.

On a cluster a shadow is one short-lived pod after another; each leaves this to the next.

Keeps: an object is whole or not there, and the one before goes when a newer one is. Does not: know a shadow
(session.py), or read what another code has left.
"""

import msgspec

from flamestream.audit.canary_steps import Awaited
from flamestream.audit.code_span import StateLeft
from flamestream.audit.shadow.total import Total
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.decoding import DecodeError, from_msgpack
from flamestream.model.time import Time
from flamestream.ports import ObjectStore


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A place between two rounds."""

    code: str
    """Digest of the code whose state it is."""
    since: Time
    """The cut where it began."""
    until: Time
    """Below it all was interpreted."""
    places: tuple[FrontPosition, ...]
    """Places of its fronts."""
    awaited: tuple[Awaited, ...]
    state: StateLeft
    total: Total


def kept_of(store: ObjectStore, name: str, code: str) -> Kept | None:
    """The newest that shadow `name` has left; None: none, or it is of other code, or of another release. Raises
    Corrupt."""
    found = store.names(_folder(name))
    try:
        kept = from_msgpack(store.get(found[-1]), Kept) if found else None
    except DecodeError:
        return None
    return kept if kept is not None and kept.code == code else None


def keep(store: ObjectStore, name: str, kept: Kept) -> None:
    """In the place of what it has left before."""
    before = store.names(_folder(name))
    fresh = f"{_folder(name)}{kept.until:020}"
    store.put_new(fresh, msgspec.msgpack.encode(kept))
    store.delete(*(each for each in before if each != fresh))


def forget(store: ObjectStore, name: str) -> None:
    """All that it has left."""
    store.delete(*store.names(_folder(name)))


def _folder(name: str) -> str:
    return f"shadows/{name}/"
