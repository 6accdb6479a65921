"""Calls: functions that ask the outside world, and what a graph has for one.

A call is a sink and a source of the same name. Its requests leave as results do, when they are final; each
answer is journalled and enters as a record does, at a time of its own. So nothing between the two waits, a
replay reads the answer instead of asking again, and the order, the reference and the audit know nothing of
it.

    requests -> sink "NAME()" ... the outside ... -> source "NAME()" -> `Results` -> what follows

>>> from flamestream.model.graph import Graph
>>> @call(timeout="5s")
... async def priced(order: int) -> tuple[int, int]:
...     return order, 3 * order
>>> graph = Graph("prices")
>>> graph.source("orders").call(priced).sink("priced")
>>> graph.run(orders=[7])
{'priced': [(7, 21)]}

Keeps: what an answer names is its request's meta and hash, never a number (!). Does not: call anything
(node/calls/process.py), or decide when (core/worker/calls.py).
Source: design-next, section 4: Dataflow's effective determinism, as a sink and a source.
"""

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, TypeVar, overload

from flamestream.model.calls.clients import Call
from flamestream.model.calls.loops import Round
from flamestream.model.duration import Duration, Micros, micros
from flamestream.model.errors import GraphError
from flamestream.model.failure import Failed, failure
from flamestream.model.payload import ErrorValue, payload_type
from flamestream.model.payloads.codec import check
from flamestream.model.vertex import Function, name_of

if TYPE_CHECKING:
    from flamestream.model.graph import Graph

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Setting = int | float | str
MAX_FRONTS: Final = 64
HASH_BYTES: Final = 16
SECONDS_30: Final = Micros(30_000_000)
MILLIS_5: Final = Micros(5_000)
NOT_AT_ALL: Final = Micros(0)


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How a call is made. Durations are in microseconds."""

    timeout: Micros = SECONDS_30
    """The time of one try."""
    tries: int = 0
    """Tries of a request, with pauses between them that grow; 0 if nobody says (`most_tries`)."""
    give_up_after: Micros = NOT_AT_ALL
    """How long a request is tried, from its first try on; 0 if tries alone bound that."""
    concurrency: int = 64
    """Calls of the function under way, of each worker."""
    pending: int = 10_000
    """Requests without an answer, of each worker, above which sources wait."""
    order: Literal["none", "key"] = "none"
    """Answers enter as they come, or those of a key in the order of its requests."""
    doubt: Literal["again", "never"] = "again"
    """A request that may have been made before a failure is made again, or becomes an error item."""
    fronts: int = 1
    """In how many parts requests are worked on, so the most workers that can share them."""
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    """Exceptions of a try that make another worth while."""
    rate: float = 0.0
    """Calls of the function a second, of each worker; 0 for as many as there are."""
    cache: Micros = NOT_AT_ALL
    """How long results are given for an equal request; 0 if each is asked."""
    batch: int = 1
    """Requests that are made together, by a function that takes a list."""
    linger: Micros = MILLIS_5
    """How long the first request of a batch waits for others."""
    breaker: tuple[type[BaseException], ...] | None = ()
    """Exceptions of a try that say that the service is down, beside a broken network and a time-out; None:
    not even those."""

    @property
    def most_tries(self) -> float:
        """Tries of a request at most."""
        if self.tries:
            return self.tries
        return 1 if self.doubt == "never" else math.inf if self.give_up_after else 11

    @property
    def most_asked(self) -> int:
        """Requests under way, of each worker."""
        return self.concurrency * self.batch


class CallFunction(Generic[P, R]):
    """A function with `@fs.call(...)`: called, it is the function."""

    asks_outside = True
    """So that it is refused where a pure function is called (fields.py)."""

    def __init__(self, function: Callable[P, R], settings: CallSettings) -> None:
        self.function, self.settings = function, settings
        self.said = settings
        """The settings of the code, whatever a manifest changes."""
        update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self.function(*arguments, **named)

    # Looked at once: a signature takes 10 us, as long as all else that is done for a request.
    @cached_property
    def takes_call(self) -> bool:
        """Whether it is given the `Call` beside the item."""
        return takes_call(self.function)

    @cached_property
    def is_async(self) -> bool:
        """Whether it is awaited; a plain one runs in a thread."""
        return inspect.iscoroutinefunction(self.function)


Errors = type[Exception] | tuple[type[Exception], ...]


@overload
def call(function: Callable[P, R], /) -> CallFunction[P, R]: ...
@overload
def call(
    *, timeout: Duration = ..., retries: int | None = ..., concurrency: int = ..., pending: int = ...,
    order: Literal["none", "key"] = ..., doubt: Literal["again", "never"] = ..., fronts: int = ...,
    retry_on: Errors = ..., rate: float | None = ..., cache: Duration | None = ..., batch: int = ...,
    linger: Duration = ..., breaker: Errors | None = ..., give_up_after: Duration | None = ...,
) -> Callable[[Callable[P, R]], CallFunction[P, R]]: ...  # fmt: skip
def call(  # noqa: PLR0913 (settings, each by its name)
    function: Callable[..., Any] | None = None, /, *, timeout: Duration = "30s", retries: int | None = None,
    concurrency: int = 64, pending: int = 10_000, order: Literal["none", "key"] = "none",
    doubt: Literal["again", "never"] = "again", fronts: int = 1, retry_on: Errors = Exception,
    rate: float | None = None, cache: Duration | None = None, batch: int = 1, linger: Duration = "5ms",
    breaker: Errors | None = (), give_up_after: Duration | None = None,
) -> Any:  # fmt: skip
    """Settings of a function that asks the outside, for `stream.call`.

    The function is `async` or plain (it then runs in a thread of its own), and takes an item, and an
    `fs.Call` if it has a second parameter. `timeout`: of one try; `retries`: how often it is tried again, 10
    times (half a minute) if not said, behind an exception of `retry_on`. `concurrency`: how many run at once
    in a worker. `pending`: how many requests may wait for their answer before sources do. `order="key"`:
    answers of a key enter in the order of its requests. `doubt`: whether a call that a failure may have
    interrupted is made again (at least once), or becomes an error item `InDoubt` (at most once, so never
    tried again). `give_up_after`: how long a request is tried, from its first try on and without the time of
    outages; where `retries` is not said, as often as it takes. `fronts`: how many workers can share its
    calls. `rate`: calls of it a second in a worker. `cache`: how long the results of a request are given to
    equal ones. `batch`: how many requests the function takes at once, as a list (and a list of `fs.Call`),
    for which it gives a list of as many results; `linger`: how long the first of them waits for others. While
    the service is down, requests wait, and tries are not counted; `breaker` names exceptions that say so
    beside a broken network and a time-out, or is None if nothing does. Raises GraphError.
    """
    if retries is not None:
        _check_number("retries", retries, 0)
    if doubt == "never" and retries:
        raise GraphError(
            f'@fs.call: retries={retries} and doubt="never": a second try could be a second effect'
        )
    if doubt == "never" and cache is not None:
        raise GraphError('@fs.call: cache= and doubt="never": a cache is for calls without an effect')
    if give_up_after is not None and (doubt == "never" or retries == 0):
        once = 'doubt="never"' if doubt == "never" else "retries=0"
        raise GraphError(f"@fs.call: give_up_after= and {once}: what is tried once is given up behind that")
    if rate is not None and not (type(rate) in (int, float) and 0 < rate < 1e6):
        raise GraphError(f"@fs.call: rate={rate!r}: it is a number of tries a second, above 0")
    settings = CallSettings(
        micros(timeout, "@fs.call: timeout", least=1_000), 0 if retries is None else retries + 1,
        _given("give_up_after", give_up_after), concurrency, pending, order, doubt, fronts,
        _errors("retry_on", retry_on), rate or 0.0, _given("cache", cache), batch,
        micros(linger, "@fs.call: linger", least=1_000),
        None if breaker is None else _errors("breaker", breaker),
    )  # fmt: skip
    _check(settings)
    return (
        CallFunction(function, settings) if function is not None else partial(CallFunction, settings=settings)
    )


def _given(name: str, duration: Duration | None) -> Micros:
    return NOT_AT_ALL if duration is None else micros(duration, f"@fs.call: {name}", least=1_000)


def _errors(name: str, value: Any) -> tuple[type[BaseException], ...]:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise GraphError(f"@fs.call: {name}={value!r}: it is a class of exceptions, or a tuple of them")
    return kinds


def _check(settings: CallSettings) -> None:
    for name in ("concurrency", "pending", "fronts", "batch"):
        _check_number(name, getattr(settings, name), 1)
    if settings.batch > settings.pending:
        raise GraphError(f"@fs.call: batch={settings.batch} is more than pending={settings.pending}")
    if settings.fronts > MAX_FRONTS:
        raise GraphError(f"@fs.call: fronts={settings.fronts}: there are at most {MAX_FRONTS}")
    for name, known in (("order", ("none", "key")), ("doubt", ("again", "never"))):
        if (value := getattr(settings, name)) not in known:
            raise GraphError(f"@fs.call: {name}={value!r} is unknown: it is {' or '.join(map(repr, known))}")


def _check_number(name: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise GraphError(f"@fs.call: {name}={value!r}: it must be a whole number of at least {least}")


Asks = Callable[[T], R] | Callable[[T, Call], R]
"""A function that is called with an item, or with an item and its `Call`."""
AsksTogether = Callable[[list[T]], R] | Callable[[list[T], list[Call]], R]
"""The same for a batch."""


class InDoubt(Exception):
    """A call with `doubt="never"` was under way when its worker failed: whether it took effect is not known,
    and it is not made again."""


@payload_type
@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, as it enters the stream."""

    # (!) No number: a replay might count otherwise, and a request would get another one's answer.
    request: bytes
    """Meta of the request."""
    hash: bytes
    """Hash of the request's payload (`hash_of`)."""
    results: tuple[Any, ...] = ()
    error: ErrorValue | None = None


@payload_type
@dataclass(frozen=True, slots=True)
class Intent:
    """The record that enters before a call with `doubt="never"` is made: it has no results."""

    request: bytes
    hash: bytes


class Results:
    """Answer -> its results, for a flat_map; an answer that is an error becomes an error item."""

    def __init__(self, function: Function) -> None:
        self.written = name_of(function)

    def __call__(self, answer: Answer | Intent | Round) -> tuple[Any, ...]:
        if not isinstance(answer, Answer):
            return ()
        if answer.error is not None:
            raise Failed(answer.error)
        return answer.results


def hash_of(payload: bytes) -> bytes:
    """Hash of a request's encoded payload: a replay that makes another request is known by it."""
    return hashlib.blake2b(payload, digest_size=HASH_BYTES).digest()


def id_of(job: str, name: str, request: bytes) -> str:
    """The id of a call (`Call.id`)."""
    return ids_of(job, name)(request)


def ids_of(job: str, name: str) -> Callable[[bytes], str]:
    """The ids of all calls of one name, by their requests. What they share is hashed once."""
    # sizes first, so that no two triples make one text
    shared = hashlib.blake2b(b"".join(map(_sized, (job.encode(), name.encode()))), digest_size=16)

    def its(request: bytes) -> str:
        made = shared.copy()
        made.update(_sized(request))
        return made.hexdigest()

    return its


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def takes_call(function: Function) -> bool:
    """Whether a function has a second parameter, for the `Call`: one without a default, or one of that
    name."""
    positional = _positional(function) or []
    second = positional[1] if len(positional) > 1 else None
    return second is not None and (second.default is second.empty or second.name == "call")


def _positional(function: Function) -> list[inspect.Parameter] | None:
    """Positional parameters of a function, for an item and a `Call`; None if it does not say them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a built-in one
        return None
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [parameter for parameter in parameters if parameter.kind in kinds]


def check_parameters(function: Function, where: str) -> None:
    """Raises GraphError if it can be called neither with an item nor with an item and a `Call`, or gives no
    results."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise GraphError(
            f"{where}: {name_of(function)} yields, and a call gives a result or a list of results at once: gather "
            "them in a list, and return that"
        )
    if (positional := _positional(function)) is None:
        return
    arguments = ("item", "call") if takes_call(function) else ("item",)
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise GraphError(
            f"{where}: {name_of(function)} is called with an item, and with an fs.Call if it has a second "
            f"parameter, but it has {len(positional)}: {error}"
        ) from None


def answered(function: Function, payload: Any, outcome: Any) -> tuple[tuple[Any, ...], ErrorValue | None]:
    """Results and error of what a call gave or raised: a list is any number of results, all else is one."""
    if not isinstance(outcome, Exception):
        results = tuple(outcome) if type(outcome) is list else (outcome,)
        try:
            check(results)
        except Exception as error:  # noqa: BLE001 (a result that is no payload is the function's failure)
            outcome = error
        else:
            return results, None
    return (), failure(function, outcome, payload)


def change_calls(graph: "Graph", changes: Mapping[str, Mapping[str, Setting]]) -> None:
    """Other settings than the functions have, by the call's name: what the manifest says, in every process
    that loads the graph."""
    for name, call in calls_of(graph).items():
        call.settings = _changed(call.said, changes.get(name, {}))


def _changed(settings: CallSettings, changes: Mapping[str, Setting]) -> CallSettings:
    of_call: dict[str, Any] = dict(changes)
    if of_call.get("doubt", settings.doubt) != settings.doubt:
        # (!) What was said of tries was said for the other one: a second try could be a second effect.
        of_call = {"tries": 0, "give_up_after": NOT_AT_ALL, **of_call}
    return replace(settings, **of_call)


def calls_of(graph: "Graph") -> dict[str, CallFunction[..., Any]]:
    """The calls of a graph, by name."""
    return {name: sink.call for name, sink in graph.calls.items() if sink.call is not None}


__all__ = [
    "Answer", "Call", "CallFunction", "CallSettings", "InDoubt", "Intent", "Results", "answered", "call",
    "calls_of", "change_calls", "check_parameters", "hash_of", "id_of", "ids_of", "takes_call",
]  # fmt: skip
