"""Calls: functions that ask the outside world, and what a graph has for one.

A call is a sink and a source of the same name. Its requests leave as results do, when they are final; each
answer is journalled and enters as a record does, at a time of its own. So nothing between the two waits, a
replay reads the answer instead of asking again, and the order, the reference and the audit know nothing of it.

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
(node/caller_process.py), or decide when (core/worker/calls.py).
Source: design-next, section 4: Dataflow's effective determinism, as a sink and a source.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, TypeVar

from flamestream.model import fields
from flamestream.model.codec import encode
from flamestream.model.duration import Duration, Micros, micros
from flamestream.model.errors import GraphError
from flamestream.model.failure import Failed, failure
from flamestream.model.payload import ErrorValue, payload_type
from flamestream.model.vertex import Function, Kind, call_site, name_of

if TYPE_CHECKING:
    from flamestream.model.graph import Graph
    from flamestream.model.stream import Stream

P = ParamSpec("P")
R = TypeVar("R")
MAX_FRONTS: Final = 64
HASH_BYTES: Final = 16
SECONDS_30: Final = Micros(30_000_000)


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How a call is made. Durations are in microseconds."""

    timeout: Micros = SECONDS_30
    """Of one try."""
    tries: int = 5
    """Of one request, with pauses that grow."""
    concurrency: int = 64
    """Requests under way, of each worker."""
    pending: int = 10_000
    """Requests without an answer, of each worker, above which sources wait."""
    order: Literal["none", "key"] = "none"
    """Answers enter as they come, or those of a key in the order of its requests."""
    doubt: Literal["again", "never"] = "again"
    """A request that may have been made before a failure is made again, or becomes an error item."""
    fronts: int = 1
    """In how many parts requests are worked on, so the most workers that can share them."""
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    """What of a try makes another worth while."""


class CallFunction(Generic[P, R]):
    """A function with `@fs.call(...)`: called, it is the function."""

    def __init__(self, function: Callable[P, R], settings: CallSettings) -> None:
        self.function, self.settings = function, settings
        update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self.function(*arguments, **named)


def call(
    *, timeout: Duration = "30s", retries: int | None = None, concurrency: int = 64, pending: int = 10_000,
    order: Literal["none", "key"] = "none", doubt: Literal["again", "never"] = "again", fronts: int = 1,
    retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> Callable[[Callable[P, R]], CallFunction[P, R]]:  # fmt: skip
    """Settings of a function that asks the outside, for `stream.call`.

    The function is `async` or plain (it then runs in a thread of its own), and takes an item, and an
    `fs.Call` if it has a second parameter. `timeout`: of one try; `retries`: how often it is tried again, 4
    times if not said, behind an exception of `retry_on`.
    `concurrency`: how many run at once in a worker. `pending`: how many requests may wait for their answer
    before sources do. `order="key"`: answers of a key enter in the order of its requests. `doubt`: whether a
    call that a failure may have interrupted is made again (at least once), or becomes an error item `InDoubt`
    (at most once, so never tried again). `fronts`: how many workers can share its calls. Raises GraphError.
    """
    if doubt == "never" and retries:
        raise GraphError(
            f'@fs.call: retries={retries} and doubt="never": a second try could be a second effect'
        )
    retries = (0 if doubt == "never" else 4) if retries is None else retries
    settings = CallSettings(
        micros(timeout, "@fs.call: timeout", least=1_000), retries + 1, concurrency, pending, order, doubt,
        fronts, retry_on if isinstance(retry_on, tuple) else (retry_on,),
    )  # fmt: skip
    _check(settings)
    return lambda function: CallFunction(function, settings)


def _check(settings: CallSettings) -> None:
    for name, least in (("tries", 1), ("concurrency", 1), ("pending", 1), ("fronts", 1)):
        if (value := getattr(settings, name)) < least:
            raise GraphError(f"@fs.call: {name}={value!r}: it must be at least {least}")
    if settings.fronts > MAX_FRONTS:
        raise GraphError(f"@fs.call: fronts={settings.fronts}: there are at most {MAX_FRONTS}")
    for name, known in (("order", ("none", "key")), ("doubt", ("again", "never"))):
        if (value := getattr(settings, name)) not in known:
            raise GraphError(f"@fs.call: {name}={value!r} is unknown: it is {' or '.join(map(repr, known))}")


@dataclass(frozen=True, slots=True)
class Call:
    """What a function that asks the outside is told of its call, beside the item."""

    id: str
    """The same for every try of this request, through crashes, rescales and upgrades: for a service that
    knows what it did already (an `Idempotency-Key`)."""
    attempt: int = 1
    """The number of this try, from 1. A worker that began anew counts anew."""


class InDoubt(Exception):
    """A call with `doubt="never"` was under way when its worker failed: whether it took effect is not known,
    and it is not made again."""


@payload_type
@dataclass(frozen=True, slots=True)
class Answer:
    """What enters for a request."""

    request: bytes
    """Its meta."""
    hash: bytes
    """Of its payload (`hash_of`)."""
    results: tuple[Any, ...] = ()
    error: ErrorValue | None = None


@payload_type
@dataclass(frozen=True, slots=True)
class Intent:
    """What enters before a call with `doubt="never"` is made: it has no results."""

    request: bytes
    hash: bytes


class Results:
    """Answer -> its results, for a flat_map; an answer that is an error becomes an error item."""

    def __init__(self, function: Function) -> None:
        self.written = name_of(function)

    def __call__(self, answer: Answer | Intent) -> tuple[Any, ...]:
        if isinstance(answer, Intent):
            return ()
        if answer.error is not None:
            raise Failed(answer.error)
        return answer.results


def hash_of(payload: bytes) -> bytes:
    """Of a request's encoded payload: a replay that makes another request is known by it."""
    return hashlib.blake2b(payload, digest_size=HASH_BYTES).digest()


def id_of(job: str, name: str, request: bytes) -> str:
    """The id of a call (`Call.id`)."""
    # sizes first, so that no two triples make one text
    said = b"".join(len(part).to_bytes(4, "big") + part for part in (job.encode(), name.encode(), request))
    return hashlib.blake2b(said, digest_size=16).hexdigest()


def takes_call(function: Function) -> bool:
    """Whether it has a second parameter, for the `Call`."""
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return len(parameters) > 1


def answered(function: Function, payload: Any, outcome: Any) -> tuple[tuple[Any, ...], ErrorValue | None]:
    """Results and error of what a call gave or raised: a list is any number of results, all else is one."""
    if not isinstance(outcome, Exception):
        results = tuple(outcome) if type(outcome) is list else (outcome,)
        try:
            encode(results)
        except Exception as error:  # noqa: BLE001 (a result that is no payload is the function's failure)
            outcome = error
        else:
            return results, None
    return (), failure(function, outcome, payload)


def change_calls(graph: "Graph", changes: Mapping[str, Mapping[str, int]]) -> None:
    """Other settings than the functions have, by the call's name: what the manifest says, in every process
    that loads the graph."""
    for name, call in calls_of(graph).items():
        of_call: dict[str, Any] = dict(changes.get(name, {}))
        call.settings = replace(call.settings, **of_call)


def calls_of(graph: "Graph") -> dict[str, CallFunction[..., Any]]:
    """The calls of a graph, by name."""
    return {name: sink.call for name, sink in graph.calls.items() if sink.call is not None}


def called_stream(stream: "Stream[Any]", function: Function, key: Any, name: str | None) -> "Stream[Any]":
    """The results of a call for each item. Raises GraphError."""
    from flamestream.model.stream import Stream  # it stands on this module

    if not callable(function):
        raise GraphError(f"{call_site()}: a {type(function).__name__} stands where a function is called")
    graph = stream.graph
    # its own, since settings may be changed by the call's name
    made = (
        CallFunction(function.function, function.settings)
        if isinstance(function, CallFunction)
        else CallFunction(function, CallSettings())
    )
    name = f"{name or name_of(made.function).rpartition('.')[2]}()"  # no name of the manifest's has brackets
    if any(vertex.name == name for vertex in (*graph.sources, *graph.sinks)):
        raise GraphError(
            f"{call_site()}: graph {graph.name!r} has two calls {name}: say stream.call(..., name=...)"
        )
    if made.settings.order == "key" and key is None:
        raise GraphError(f'{call_site()}: call {name!r} has order="key": say which, as key=...')
    key = None if key is None else fields.key_of(stream.items, key, call_site())
    sink = graph.add(Kind.SINK, name, key=key, balance=stream.balanced, call=made)
    graph.connect(stream.vertex, sink)
    answers = graph.add(Kind.SOURCE, name, call=made)
    results = graph.add(Kind.FLAT_MAP, name_of(made.function), function=Results(made.function))
    graph.connect(answers, results)
    return Stream(graph, results, items=fields.result_of(made.function))


__all__ = [
    "Answer", "Call", "CallFunction", "CallSettings", "InDoubt", "Intent", "Results", "answered", "call",
    "called_stream",     "calls_of", "change_calls", "hash_of", "id_of", "takes_call",
]  # fmt: skip
