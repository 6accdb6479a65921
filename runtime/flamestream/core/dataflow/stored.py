"""Stored: a key's rows as a snapshot has them, read as the code of now has state.

    rows of now              (full, change, ...)
    rows of an older version (b"", version, has it parts of older shapes, full, change, ...)   by chain.py

An empty first part says that nothing is stored of the version of now: so the next row of the key is full (!),
for a change names places in what it changes. Rows of an older version are read as they were written, its
classes made what they are now, and then each step of `migrate` applied, when the key is first touched.

Keeps: a step is applied to a key once, until a row of the newer version is committed. Does not: find out
which version rows have (core/protocol/stored_rows.py).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from flamestream.core.dataflow.user_code import Nothing
from flamestream.core.protocol.chain import Chain, incomplete, is_older, older_rows
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.failure import said, shortened
from flamestream.model.payloads import state as states
from flamestream.model.payloads.older import settled
from flamestream.model.payloads.registry import OlderShape
from flamestream.model.quoted import quoted
from flamestream.model.vertex import Function, Kind, Vertex, name_of

Items = list[tuple[bytes, Any]]
Stored = tuple[bytes, ...]


class Reading:
    """How one operation's rows are read. Picklable as far as its functions are."""

    def __init__(self, version: int = 1, migrate: Mapping[int, Function] = {}) -> None:
        self._version, self._migrate = version, migrate

    @classmethod
    def of(cls, vertex: Vertex) -> "Reading":
        """For the rows of a vertex."""
        return cls(vertex.version, vertex.migrate)

    def accumulator(self, stored: Stored) -> Any:
        """The accumulator of a full state and the changes behind it. Raises UserError for a step that fails,
        and for a class that does not fit."""
        if not is_older(stored):
            return _accumulator(stored)
        return self._read(stored, _accumulator, self._migrated)

    def items(self, stored: Stored) -> Items:
        """The last items of a grouping."""
        if not is_older(stored):
            return codec.decode_items(stored[-1])
        items: Items = self._read(
            stored,
            lambda rows: codec.decode_items(rows[-1]),
            lambda items, version: [(meta, self._migrated(item, version)) for meta, item in items],
        )
        return items

    def value(self, kind: Kind, stored: Stored) -> Any:
        """The value that a snapshot has for a key: a grouping's last items as a tuple, or a reduce's
        accumulator."""
        if kind is Kind.GROUPING:
            return tuple(value for _, value in self.items(stored))
        return self.accumulator(stored)

    def unstored(self, value: Any) -> Stored:
        """A state that was found elsewhere, in the form of one that was stored: nothing behind it may be a change."""
        return older_rows((states.encode_state(value),), self._version, shapes=False)

    def loaded(self, chain: Chain) -> Chain:
        """A grouping's chain as one of now."""
        if not is_older(chain.states):
            return chain
        return chain._replace(states=(codec.encode_items(self.items(chain.states)),))

    def _read(
        self, stored: Stored, read: Callable[[Stored], Any], migrated: Callable[[Any, int], Any]
    ) -> Any:
        _, version, shapes, *rows = stored
        try:
            # (!) Changes name places of fields as they were: they are applied before any field has another.
            value = settled(lambda: read(tuple(rows))) if shapes == b"\x01" else read(tuple(rows))
        except OlderShape as error:
            raise UserError(str(error)) from error
        return migrated(value, int.from_bytes(version, "big"))

    def _migrated(self, value: Any, version: int) -> Any:
        if type(value) is Nothing:  # no item has made a state yet
            return value
        for old in range(version, self._version):
            if (up := self._migrate.get(old)) is None:
                raise UserError(f"a state is of version {old}, and there is no migrate={{{old}: up}} for it")
            value = _step(up, value, old)
        return value


PLAIN: Final = Reading()
"""For an operation whose state was always of one version."""


def behind(chain: Chain, stored: Stored | None) -> Chain:
    """A chain of changes, joined with what is `stored` before them. Raises Corrupt if nothing is."""
    if stored is None:
        raise incomplete(chain)
    (before, older), (mark, newer) = _parts(stored), _parts(chain.states)
    # a key's first row of a version is full, so both are of one; but newer rows alone may have older shapes
    return chain._replace(full=True, states=(*(mark or before), *older, *newer))


def _parts(stored: Stored) -> tuple[Stored, Stored]:
    """The mark of an older version, if there is one, and the rows."""
    return (stored[:3], stored[3:]) if is_older(stored) else ((), stored)


def _accumulator(stored: Stored) -> Any:
    accumulator = states.decode_state(stored[0])
    for change in stored[1:]:
        accumulator = states.apply_state_delta(accumulator, change)
    return accumulator


def _step(up: Function, value: Any, version: int) -> Any:
    try:
        made = up(value)
        codec.check(made)
    except Exception as error:
        raise UserError(
            f"{name_of(up)} fails for a state of version {version}: {type(error).__name__}: "
            f"{quoted(said(error))}. It was given {quoted(shortened(value))}: migrate={{{version}: ...}} has to "
            "take every state of that version. The snapshot is as it was"
        ) from error
    return made
