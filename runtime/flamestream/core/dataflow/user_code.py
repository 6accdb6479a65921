"""The edge to user code: calls a user's function, checks what it returns, and turns what it raises into an
error item.

An error is an item: it travels, can be invalidated, and is acted on only below minimal time, because
speculation may raise where the true order does not (!). MemoryError and RecursionError are failures of the
worker and pass through: they say nothing about the record.

In debug mode every function runs twice: both results must be equal, and its input must encode as before.

Keeps: whatever is sent locally equals decode(encode(it)), because `payload.check` refuses everything else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flamestream.model import payload as codec
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.errors import PayloadError, UserError, too_big_results, too_many_results
from flamestream.model.failure import FATAL, Raised, blame, failure, noted
from flamestream.model.meta import Meta
from flamestream.model.payload import ErrorValue
from flamestream.model.slot import INT32_MAX, INT32_MIN
from flamestream.model.tables import transaction
from flamestream.model.tables.index import indexing, no_keys
from flamestream.model.tables.ledger import Deciding
from flamestream.model.tables.transaction import Decision, Read, Rules, Write
from flamestream.model.vertex import Function, Vertex, name_of

check, checked_size = codec.check, codec.checked_size
Fold = Callable[[Any, Any, bool], tuple[Any, Any]]
"""(accumulator before, payload, is it the first) -> (accumulator after, result)."""
Written = Sequence[tuple[tuple[str, Any], Write[Any, Any]]]
"""The rows that a transaction has written, each as it is stored, with what it has done to it."""
Decide = Callable[[Read, Any], tuple[Any, Written]]
"""(the rows below, a transaction) -> its result, and what it has written."""
Refused = Callable[[Function | None, Exception, Any], Any]
"""(the function that has raised, its error, a transaction) -> the result of that."""
SELF_CHECKED = (Vector, Map, Set)
"""Collections check what is put into them."""


def mapped(vertex: Vertex, debug: bool) -> Callable[..., Any]:
    """payload -> result or ErrorValue, for MAP; payload and its meta, for ARRIVAL."""
    users = _of(vertex.function)
    function, most = observed(users, debug), vertex.max_result_bytes

    def call(payload: Any, *meta: Meta) -> Any:
        try:
            result = function(payload, *meta)
            if checked_size(result) > most:
                raise too_big_results(most)
        except FATAL as error:
            noted(error, users, payload)
            raise
        except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
            return failure(users, error, payload)
        return result

    return call


def flat_mapped(vertex: Vertex, debug: bool) -> Callable[[Any], list[Any] | ErrorValue]:
    """payload -> all results, or one ErrorValue, for FLAT_MAP."""
    users, listed = _of(vertex.function), lister(vertex)
    function = observed(users, debug, listed)

    def call(payload: Any) -> list[Any] | ErrorValue:
        try:
            return listed(function(payload))
        except FATAL as error:
            noted(error, users, payload)
            raise
        # (!) Not raised here: speculation may fail where the true order does not.
        except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
            return failure(users, error, payload)

    return call


def lister(vertex: Vertex) -> Callable[[Iterable[Any]], list[Any]]:
    """results -> all of them, each checked as it comes: of several things that are wrong, the first counts.

    A generator without end is not waited for: what it may make of one item is bounded.
    """
    most, most_bytes = vertex.max_results, vertex.max_result_bytes

    def listed(results: Iterable[Any]) -> list[Any]:
        checked, size = list[Any](), 0
        for result in results:
            size += checked_size(result)
            # only the one beyond the limit shows that there are too many
            if len(checked) == most:
                raise too_many_results(most)
            if size > most_bytes:
                raise too_big_results(most_bytes)
            checked.append(result)
        return checked

    return listed


def filtered(vertex: Vertex, debug: bool) -> Callable[[Any], bool | ErrorValue]:
    """payload -> does it stay, for FILTER."""
    users = _of(vertex.function)
    function = observed(users, debug, bool)

    def call(payload: Any) -> bool | ErrorValue:
        try:
            return bool(function(payload))
        except FATAL as error:
            noted(error, users, payload)
            raise
        except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
            return failure(users, error, payload)

    return call


def folded(vertex: Vertex, debug: bool) -> Fold:
    """The step of a REDUCE. A failed `combine` leaves the accumulator (none at a key's beginning); a failed
    `emit` does not undo it."""
    users_initial, users_combine = _of(vertex.initial), _of(vertex.combine)
    initial, combine = observed(users_initial, debug), observed(users_combine, debug)
    emit = None if vertex.emit is None else observed(vertex.emit, debug)
    # not None, which `combine` may give
    missing = object()

    def call(before: Any, payload: Any, first: bool) -> tuple[Any, Any]:
        kept = before
        if first or type(before) is Nothing:
            kept = NOTHING
            try:
                before = initial()
            except FATAL as error:
                noted(error, users_initial, payload)
                raise
            except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
                return kept, failure(users_initial, error, payload)
        after = missing
        try:
            after = combine(before, payload)
            if type(after) not in SELF_CHECKED:
                check(after)
            if emit is None:
                return after, after
            result = emit(after, payload)
            check(result)
        except FATAL as error:
            noted(error, users_combine if after is missing else _of(vertex.emit), payload)
            raise
        except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
            # if `combine` has given a payload, the error is `emit`'s
            if after is missing or not codec.is_payload(after):
                return kept, failure(users_combine, error, payload)
            return after, failure(_of(vertex.emit), error, payload)
        return after, result

    return call


def decided(vertex: Vertex, debug: bool) -> Decide:
    """The step of the REDUCE that decides transactions (model/tables/ledger.py), without its fold: the same result."""
    deciding = vertex.combine
    assert isinstance(deciding, Deciding)
    decide = (DecidingTwice.of(deciding) if debug else deciding).decide

    def call(read: Read, item: Any) -> tuple[Any, Written]:
        return _concluded(deciding, partial(decide, read, item), item)

    return call


def refused(vertex: Vertex) -> Refused:
    """The result of a transaction that the kernel has begun and one of whose functions has raised. None: it was none
    of the user's."""
    deciding = vertex.combine
    assert isinstance(deciding, Deciding)

    def call(function: Function | None, error: Exception, item: Any) -> Any:
        def decide() -> Decision:
            raised = error if function is None else blame(function, error, item.item)
            if not isinstance(raised, Raised):
                raise raised
            return transaction.refused(raised, item.item)

        return _concluded(deciding, decide, item)[0]

    return call


def _concluded(deciding: Deciding, decide: Callable[[], Decision], item: Any) -> tuple[Any, Written]:
    try:
        decision = decide()
        check(told := (item.number, decision))
    except FATAL as error:
        noted(error, deciding, item)
        raise
    except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
        return failure(deciding, error, item), ()
    return told, [((deciding.stored(write.table), write.key), write) for write in decision.writes]


def balanced(balance: Function, debug: bool) -> Callable[[Any], int]:
    """key -> int32. Raises UserError if it is none, and whatever the user's function raises."""
    call = observed(balance, debug)

    def int32(key: Any) -> int:
        value = call(key)
        if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
            raise UserError(
                f"balancing function {name_of(balance)} returned {value!r}: it must return an int32"
            )
        return value

    return int32


# a payload: as an accumulator it may come into a snapshot
@codec.payload_type
@dataclass(frozen=True, slots=True)
class Nothing:
    """The accumulator of a key for which nothing has been combined yet, because `initial` or `combine`
    raised."""


NOTHING = Nothing()


def as_it_is(result: Any) -> Any:
    """The usual way to settle."""
    return result


def observed(function: Function, debug: bool, settle: Callable[[Any], Any] = as_it_is) -> Function:
    """The function itself; in debug mode, one that runs it twice and compares. `settle` makes a value of what
    it returns."""
    if not debug:
        return function
    if isinstance(function, Deciding):
        return DecidingTwice.of(function)

    def twice(*arguments: Any) -> Any:
        before = [_encoded(argument) for argument in arguments]
        results = [settle(function(*arguments)) for _ in range(2)]
        if [_encoded(argument) for argument in arguments] != before:
            raise UserError(
                f"{name_of(function)} changes its input: functions must leave payloads as they are; "
                "build a new value"
            )
        if _encoded(results[0]) != _encoded(results[1]):
            cause = "functions must not depend on clock, randomness or outside state"
            raise UserError(f"{name_of(function)} gave two results for one input: {cause}")
        return results[0]

    twice.written = name_of(function)  # type: ignore[attr-defined]
    return twice


@dataclass(eq=False, slots=True)
class DecidingTwice(Deciding):
    """Decides each transaction twice, for debug mode: the one of the user's functions that gave two results is named,
    be it the transaction's, a table's or an index's."""

    @classmethod
    def of(cls, deciding: Deciding) -> "DecidingTwice":
        """Decides as that one does."""
        rules = {name: _rules_observed(each) for name, each in deciding.rules.items()}
        keys = {number: _observed_key(each) for number, each in deciding.keys.items()}
        return cls([indexing(each, _observed_key) for each in deciding.functions], rules, keys)

    def decide(self, read: Read, item: Any) -> Decision:
        """The decision of a transaction. Raises Raised, which blames its function, for another one the second time, and
        for one that touches a row that it does not name, if it names some."""
        function, keys = self.functions[item.number], self.keys.get(item.number)

        # the whole of it: a second run on the rows of the first would read what that has set
        def decision(given: Any) -> Decision:
            return transaction.decide(function, given, read, self.rules, keys)

        decision.written = name_of(function)  # type: ignore[attr-defined]
        try:
            return observed(decision, True)(item.item)  # type: ignore[no-any-return]
        except UserError as error:
            raised = Raised(function, error)
            raised.given = item.item
            raise raised from error


def _rules_observed(rules: Rules) -> Rules:
    # an index is known by its `initial`
    initial = rules.initial if rules.initial is no_keys else observed(rules.initial, True)
    return rules._replace(initial=initial, check=None if rules.check is None else observed(rules.check, True))


def _observed_key(key: Function) -> Function:
    return observed(key, True)


def _encoded(value: Any) -> bytes | None:
    """None for what is no payload: whoever calls the function refuses it where it must be one."""
    try:
        # a flat_map's settled results are a list, which is no payload
        return codec.encode(tuple(value) if isinstance(value, list) else value)
    except PayloadError:
        return None


def _of(function: Function | None) -> Function:
    assert function is not None, "the graph's builder gives every operation its functions"
    return function
