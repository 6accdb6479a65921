"""Productions: a graph whose functions need not be deterministic, made one that asks for what they give.

Under `strong-productions` each chain of users' functions between two doors becomes a call (call.py). What
comes to the chain is its request; all that the chain makes of it is the answer, one entry of the journal. So
a replay reads what was given instead of asking again, and nothing that depends on it leaves before it is
durable.

    v -> f -> g -> w   becomes   v -> sink "production:f -> g()" ... source of this name -> results -> sound -> w

>>> graph = Graph("words")
>>> graph.source("lines").flat_map(str.split).filter(str.isalpha).sink("words")
>>> strong = with_productions(graph)
>>> [vertex.kind.value for vertex in strong.vertices]
['source', 'sink', 'source', 'flat_map', 'filter', 'sink']
>>> strong.run(lines=["to be 1", "or"])
{'words': ['to', 'be', 'or']}

A chain ends where its stream is keyed, merged, goes two ways or is balanced. Expressions, ready-made
functions and this library's own are deterministic, and stay where they are.

Keeps: the results of an input are one answer (!), so two tries cannot mix, whatever number of results each
gives; a chain's results come in the order of its inputs. Does not: look into keys, folds and `at`, which must
be deterministic: their input is durable, and is all that they may depend on. Source: MillWheel's strong
productions (VLDB 2013, section 5); design-next, section 2.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Final

from flamestream.model.calls.call import CallFunction, CallSettings, Results, calls_of
from flamestream.model.calls.loops import PRODUCTION
from flamestream.model.errors import GraphError, too_big_results, too_many_results
from flamestream.model.failure import FATAL, Failed, failure, noted
from flamestream.model.graph import Graph
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads.codec import checked_size
from flamestream.model.state_names import BRACKETS, numbered, short
from flamestream.model.vertex import Function, Kind, Vertex, name_of
from flamestream.model.windows.marks import UNLIMITED
from flamestream.model.windows.process import Steps

CHAINED: Final = (Kind.MAP, Kind.FLAT_MAP, Kind.FILTER)
SHARES: Final = 4
"""In how many parts a chain behind `balance` is worked on, so the most workers that can share it. Each is a
front, which has to promise in the journal how far it is, also when it has nothing to do: more would cost
latency."""
_SETTINGS: Final = CallSettings(tries=1, order="key", breaker=None)
_OURS: Final = "flamestream.model."
"""How the modules begin whose functions are deterministic."""


def with_productions(graph: Graph) -> Graph:
    """The graph with a call in the place of each chain; what it was given stays as it is.

    Raises GraphError for a chain in a loop, and for one before an operation in event time.
    """
    chains = {chain[0].id: chain for chain in chains_of(graph)}
    names = dict(zip(chains, numbered([called(chain) for chain in chains.values()]), strict=True))
    inner = {vertex.id for chain in chains.values() for vertex in chain[1:]}
    made = copy(graph)
    made.vertices, made.marks = [], {}
    # New ids, by the old ones: where edges into a vertex lead, and where those out of it begin.
    begins, ends = dict[int, int](), dict[int, int]()
    for vertex in graph.vertices:
        if (chain := chains.get(vertex.id)) is not None:
            _check(graph, chain)
            begins[vertex.id], ends[chain[-1].id] = _put_call(made, chain, names[vertex.id])
        elif vertex.id not in inner:
            begins[vertex.id] = ends[vertex.id] = _put(made, replace(vertex))
    for vertex in graph.vertices:
        if vertex.id in ends:
            new = made.vertices[ends[vertex.id]]
            new.outputs = [begins[output] for output in vertex.outputs]
            new.beside = None if vertex.beside is None else ends[vertex.beside]
    return made.validated()


def called(chain: Sequence[Vertex]) -> str:
    """The name of a chain, by its functions."""
    return " -> ".join(short(_function(vertex)) for vertex in chain)


def chains_of(graph: Graph) -> list[Sequence[Vertex]]:
    """The chains of users' functions, each as long as it can be."""
    follows = {
        vertex.id: after
        for vertex in graph.vertices
        if is_users(vertex) and len(vertex.outputs) == 1
        for after in (graph.vertices[vertex.outputs[0]],)
        if is_users(after) and after.balance is None
    }
    within = {vertex.id for vertex in follows.values()}
    chains = list[Sequence[Vertex]]()
    for head in graph.vertices:
        if is_users(head) and head.id not in within:
            chain = [head]
            while (after := follows.get(chain[-1].id)) is not None:
                chain.append(after)
            chains.append(chain)
    return chains


def is_users(vertex: Vertex) -> bool:
    """Whether it calls a function that nobody knows to be deterministic. By who wrote it, never by what it
    does (!): another body of a function must not make another graph."""
    function = vertex.function
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return vertex.kind in CHAINED and not module.startswith(_OURS)


def productions_of(graph: Graph) -> dict[str, CallFunction[..., Any]]:
    """Productions of a graph, by name: its calls that ask nobody outside."""
    return {name: call for name, call in calls_of(graph).items() if isinstance(call.function, Production)}


def asked_of(graph: Graph) -> dict[str, CallFunction[..., Any]]:
    """Calls of the outside that a graph makes, by name: those that are no productions."""
    productions = productions_of(graph)
    return {name: call for name, call in calls_of(graph).items() if name not in productions}


class Production:
    """The functions of a chain as one: item -> all its results, in order. Where a function raised, its error
    stands in the place of the results that are missing."""

    def __init__(self, chain: Sequence[Vertex]) -> None:
        self._chain = chain
        self.written = " -> ".join(name_of(_function(vertex)) for vertex in chain)

    def __call__(self, item: Any) -> list[Any]:
        results = [item]
        for vertex in self._chain:
            results = _applied(vertex, results)
        return results


def sound(result: Any) -> bool:
    """True. Raises for an error among the results of a production: so it alone becomes an error item, as it
    does where functions are called in their places."""
    if type(result) is ErrorValue:
        raise Failed(result)
    return True


def _applied(vertex: Vertex, items: Sequence[Any]) -> list[Any]:
    """Results of one function for all that one input has led to. The limits of a vertex are of all these:
    they are one answer."""
    made, size = list[Any](), 0
    for item in items:
        of_item = list[Any]()
        try:
            for result in _called(vertex, item):
                size += checked_size(result)
                if len(made) + len(of_item) == vertex.max_results:
                    raise too_many_results(vertex.max_results)
                if size > vertex.max_result_bytes:
                    raise too_big_results(vertex.max_result_bytes)
                of_item.append(result)
        except FATAL as error:
            noted(error, _function(vertex), item)
            raise
        except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
            of_item = [failure(_function(vertex), error, item)]
        made += of_item
    return made


def _called(vertex: Vertex, item: Any) -> Iterable[Any]:
    if type(item) is ErrorValue:
        return (item,)  # of a function before this one
    function = _function(vertex)
    match vertex.kind:
        case Kind.MAP:
            return (function(item),)
        case Kind.FLAT_MAP:
            results: Iterable[Any] = function(item)
            return results
        case _:
            return (item,) if function(item) else ()


def _put_call(graph: Graph, chain: Sequence[Vertex], called: str) -> tuple[int, int]:
    """Where requests go to, and where results come from."""
    head, production = chain[0], Production(chain)
    call = CallFunction(production, replace(_SETTINGS, fronts=1 if head.balance is None else SHARES))
    # By its functions (!): whatever comes before it in the graph, its requests are found. No name of a user's
    # call has a colon.
    name, placed = f"{PRODUCTION}{called}{BRACKETS}", f"{PRODUCTION}{head.id}{BRACKETS}"
    requests = _put(graph, Vertex(
        0, Kind.SINK, name, key=head.balance or in_one_order, call=call, placed=placed, place=head.place,
    ))  # fmt: skip
    answers = _put(graph, Vertex(0, Kind.SOURCE, name, call=call, placed=placed, place=head.place))
    # Unlimited: what is there already must not become an error item.
    results = _put(
        graph,
        Vertex(
            0, Kind.FLAT_MAP, production.written, function=Results(production), place=head.place,
            max_results=UNLIMITED, max_result_bytes=UNLIMITED,
        ),
    )  # fmt: skip
    checked = _put(graph, Vertex(0, Kind.FILTER, production.written, function=sound, place=head.place))
    graph.connect(answers, results)
    graph.connect(results, checked)
    return requests, checked


def in_one_order(_: Any) -> None:
    """The key of all inputs of a chain: their results keep the order of all of them."""


def _put(graph: Graph, vertex: Vertex) -> int:
    vertex.id = len(graph.vertices)
    graph.vertices.append(vertex)
    return vertex.id


def _check(graph: Graph, chain: Sequence[Vertex]) -> None:
    head, ahead = chain[0], graph.reachable(chain[-1].id)
    where = f"{head.place}: {name_of(_function(head))} in graph {graph.name!r}"
    if head.id in ahead:
        raise GraphError(
            f"{where} stands in a loop: under strong-productions its results are journalled, and no loop may lead "
            "through the journal but by a call. Say it with expressions (fs.field), or choose another guarantee"
        )
    for program in _programs(graph, ahead):
        raise GraphError(
            f"{where} stands before {program}, which goes by event time: under strong-productions its results come "
            "when they are journalled, and the marks of its source would have passed them. Put it behind, say it "
            "with expressions (fs.field), or ask by stream.call(..., at=...), whose results have a time of their own"
        )


def _programs(graph: Graph, ahead: Iterable[int]) -> Iterator[str]:
    for number in sorted(ahead):
        if isinstance(steps := graph.vertices[number].combine, Steps):
            yield steps.written


def _function(vertex: Vertex) -> Function:
    assert vertex.function is not None, "the graph's builder gives every operation its functions"
    return vertex.function
