"""Transaction: a pure function over rows of tables, which all change or none does.

>>> def transfer(rows, amount):
...     rows["accounts", "alice"] -= amount
...     rows["accounts", "bob"] += amount
...     return amount
>>> limits = {"accounts": Rules(int, lambda key, balance: balance >= 0)}
>>> decide(transfer, 5, {("accounts", "bob"): 7, ("accounts", "alice"): 5}.get, limits).writes[0]
Write(table='accounts', key='alice', before=5, after=0, deleted=False)
>>> decide(transfer, 9, {("accounts", "alice"): 7}.get, limits)
Decision(result=Aborted(transaction=9, reason='a check', table='accounts', key='alice'), writes=(), aborted=True)

Keeps: the same rows and the same payload give the same decision. Does not: know where rows are (ledger.py), or
which function is a user's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from flamestream.model.errors import PayloadError, UserError
from flamestream.model.failure import Raised, called, shortened
from flamestream.model.payload import payload_type
from flamestream.model.payloads.codec import check, checked_size, decode, encode
from flamestream.model.quoted import quoted
from flamestream.model.tables.index import no_keys
from flamestream.model.vertex import Function

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
MOST_KEYS: Final = 256
"""Rows that one transaction may touch."""
MOST_BYTES: Final = 8 << 20
"""Bytes of the values that one transaction may set."""
CHECK: Final = "a check"
"""The reason of a transaction that left a row which its table's `check` does not allow."""


class Abort(Exception):
    """Raised by a transaction's function: it leaves everything as it was. `reason`: a text for whoever reads
    `aborted`."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@payload_type
@dataclass(frozen=True, slots=True)
class Aborted(Generic[T]):
    """The outcome of a transaction that has changed nothing."""

    transaction: T
    """The item that it was begun with."""
    reason: str
    """The text that its function gave to `fs.Abort`, or "a check"."""
    table: str = ""
    """The table whose check it has broken; "": none."""
    key: Any = None
    """The key of the row that did."""


@payload_type
@dataclass(frozen=True, slots=True)
class Write(Generic[K, V]):
    """A row that a transaction has changed."""

    table: str
    key: K
    before: V
    after: V
    deleted: bool = False
    """The row is no more: `after` is what it reads as from then on, which the table's `initial` gives."""
    ADDED_FIELDS: ClassVar[int] = 1
    """The last fields, which version 3 of payloads of FlameStream's own did not have (docs/reference/formats.md)."""


class Rules(NamedTuple):
    """A table's word on its rows."""

    initial: Function
    """Gives the value of a row that nobody has written."""
    check: Function | None = None
    """(key, value) -> may a transaction leave that? None: anything."""
    stored: str = ""
    """The name that its rows are stored by, if that is another: the one that it had at first."""


@payload_type
@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a transaction, and what it has written."""

    result: Any
    """The value that its function gave, or `Aborted`."""
    writes: tuple[Write[Any, Any], ...] = ()
    """Rows whose value is another than before, or that are no more, in the order in which they were first written."""
    aborted: bool = False


Read = Callable[[tuple[str, Any], Any], Any]
"""((table, key), other) -> the value of a row, or the other if nobody has written it."""
_UNWRITTEN: Final = object()


class State:
    """The rows of all tables as one transaction sees them: `state[table, key]`, to be read, set and deleted.

    `state[table, a, b]` is the row with the key `(a, b)`. Rows that nobody has written have what the table's
    `initial` gives. Raises UserError for more than MOST_KEYS of them, for a table that is not the graph's, and for
    more than MOST_BYTES that are written.
    """

    __slots__ = ("_before", "_bytes", "_deleted", "_new", "_now", "_read", "_rules", "_written")

    def __init__(self, read: Read, rules: Mapping[str, Rules]) -> None:
        self._read, self._rules, self._bytes = read, rules, 0
        self._before: dict[bytes, tuple[str, Any, Any]] = {}
        self._now: dict[bytes, Any] = {}
        self._written: dict[bytes, None] = {}
        self._new: set[bytes] = set()
        """Rows that nobody before has written, or the last one who did has deleted."""
        self._deleted: set[bytes] = set()

    def __getitem__(self, row: tuple[Any, Any]) -> Any:
        return self._now[self._place(row)]

    def __setitem__(self, row: tuple[Any, Any], value: Any) -> None:
        self._bytes += checked_size(value)
        if self._bytes > MOST_BYTES:
            raise too_many_bytes()
        place = self._place(row)
        self._now[place] = value
        self._written[place] = None
        self._deleted.discard(place)

    def __delitem__(self, row: tuple[Any, Any]) -> None:
        place = self._place(row)
        self._now[place] = called(self._rules[self._before[place][0]].initial)
        self._written[place] = None
        self._deleted.add(place)

    def __contains__(self, row: object) -> bool:
        raise looked_for()

    def __iter__(self) -> Iterator[Any]:
        raise gone_through()

    @property
    def touched(self) -> set[bytes]:
        """The rows that were read or set, each as the encoding of (table's name, key)."""
        return set(self._before)

    @property
    def writes(self) -> tuple[Write[Any, Any], ...]:
        """The rows that are another than before, or no more."""
        return tuple(
            Write(*self._before[place], self._now[place], place in self._deleted)
            for place in self._written
            if self._has_changed(place)
        )

    def _has_changed(self, place: bytes) -> bool:
        if place in self._deleted:
            return place not in self._new
        return encode(self._before[place][2]) != encode(self._now[place])

    def _place(self, row: tuple[Any, ...]) -> bytes:
        if type(row) is not tuple or len(row) < 2:
            raise no_row(row)
        table, key = getattr(row[0], "name", row[0]), row[1] if len(row) == 2 else row[1:]
        place: bytes = encode((table, key))  # by bytes: 1 and 1.0 are two keys (!)
        if place not in self._now:
            if len(self._now) == MOST_KEYS:
                raise too_many_rows(table, key)
            if table not in self._rules:
                raise no_table(table, self._rules)
            value = self._read((self._rules[table].stored or table, key), _UNWRITTEN)
            if value is _UNWRITTEN:
                self._new.add(place)
                value = called(self._rules[table].initial)
            self._before[place] = table, key, value
            self._now[place] = value
        return place


# What is said of mistakes, also by the kernel (native/src/state/transactions/view.rs).


def no_row(row: Any) -> UserError:
    return UserError(f"state[{quoted(shortened(row))}] is no row: write state[table, key]")


def no_table(table: Any, tables: Iterable[str]) -> UserError:
    return UserError(f"the graph has no table {table!r}: it has {', '.join(tables)}")


def too_many_rows(table: Any, key: Any) -> UserError:
    found = quoted(shortened((table, key)))
    return UserError(f"a transaction touches more than {MOST_KEYS} rows, now {found}: make several of it")


def not_named(table: Any, key: Any) -> UserError:
    found = quoted(shortened((table, key)))
    return UserError(f"it touches {found}, which its keys= does not name: name it, or leave keys= out")


def too_many_bytes() -> UserError:
    return UserError(f"a transaction writes more than {MOST_BYTES >> 20} MiB: make several of it")


def looked_for() -> UserError:
    return UserError("every row is there, with what the table's `initial` gives if nobody has written it")


def gone_through() -> UserError:
    return UserError(
        "a transaction reads rows by their keys, as in state[table, key], and cannot go through all"
    )


def decide(
    function: Function, transaction: Any, read: Read, rules: Mapping[str, Rules], keys: Function | None = None
) -> Decision:
    """The decision of a transaction: `function(state, transaction)`, or nothing if that raises Abort or leaves what
    a check does not allow. Raises what the function or a check raises else, blamed on it; the same if it has touched
    a row that is not one of `keys(transaction)`."""
    state = State(read, rules)
    try:
        result = called(function, state, transaction)
        _check_result(function, result)
        if keys is not None:
            named = {encode((getattr(row[0], "name", row[0]), row[1])) for row in called(keys, transaction)}
            _check_named(function, state.touched - named, rules)
        writes = state.writes
        for write in writes:
            allows = None if write.deleted else rules[write.table].check
            if allows is not None and not called(allows, write.key, write.after):
                return Decision(Aborted(transaction, CHECK, write.table, write.key), aborted=True)
    except Raised as raised:
        return refused(raised, transaction)
    return Decision(result, writes)


def refused(raised: Raised, transaction: Any) -> Decision:
    """The decision of a transaction of which a function has raised. Raises what is no Abort."""
    if isinstance(raised.error, Abort):
        return Decision(Aborted(transaction, raised.error.reason), aborted=True)
    raised.given = transaction
    raise raised


def _check_named(function: Function, others: set[bytes], rules: Mapping[str, Rules]) -> None:
    """Raises Raised, which blames the function, for a row of a table that is no index."""
    for table, key in map(decode, sorted(others)):
        if rules[table].initial is not no_keys:
            raise Raised(function, not_named(table, key))


def _check_result(function: Function, result: Any) -> None:
    """Raises Raised, which blames the function, if it is no payload."""
    try:
        check(result)
    except PayloadError as error:
        raise Raised(function, error) from error
