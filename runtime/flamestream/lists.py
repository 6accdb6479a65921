"""A graph from lists to lists, `Graph.run`: what a job would deliver if these were all records of its
sources.

>>> graph = Graph("count")
>>> graph.source("numbers").map(lambda n: n + 1).sink("plus-one")
>>> run(graph, {"numbers": [1, 2]})
{'plus-one': [2, 3]}

Each record is a run of its own. What the graph asks of the outside is asked here, and answers are runs behind
all others.

Keeps: what happens to an item is the reference's to say. Does not: keep answers, or ask for one twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flamestream.model.calls.call import Answer, Call, calls_of, hash_of, id_of
from flamestream.model.calls.loops import Rounds
from flamestream.model.errors import GraphError, UserError
from flamestream.model.event_time import ARRIVAL, ENDED, Arrived
from flamestream.model.failure import told
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import encode
from flamestream.model.time import (
    MAX_TIMESTAMP,
    START,
    FrontId,
    Time,
    Timestamp,
    front_of,
    next_time,
    time_of,
)
from flamestream.reference import Results, Run, errors_of, interpret


def run(graph: Graph, inputs: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    """Results of each sink of `graph` if these are all records of its sources: `Graph.run`. Raises UserError
    for the first error item."""
    names = [vertex.name for vertex in graph.validated().sources]
    if unknown := sorted(inputs.keys() - set(names)):
        raise GraphError(
            f"graph {graph.name!r} has no source {unknown[0]!r}: its sources are "
            f"{', '.join(map(repr, names))}"
        )
    runs = runs_of(graph, ((name, record) for name in names for record in inputs.get(name, ())))
    _, results = answered(graph, runs)
    for _, error in results.pop(errors_of(graph)):
        raise UserError(told(error, f"a record of source {error.source!r}", graph))
    return {
        name: [payload for _, payload in items] for name, items in results.items() if name not in graph.calls
    }


def outputs(graph: Graph, *records: tuple[str, Any]) -> dict[str, list[Any]]:
    """Payloads of each sink that gets any, for (source, record) pairs that enter in this order, before all
    sources end; error items are under "errors".

    >>> graph = Graph("halves")
    >>> graph.source("numbers").map(lambda n: 6 // n).sink("halves")
    >>> found = outputs(graph, ("numbers", 3), ("numbers", 0), ("numbers", 1))
    >>> [error] = found["errors"]
    >>> found["halves"], error.error
    ([2, 6], 'ZeroDivisionError')
    """
    _, results = answered(graph, runs_of(graph, records))
    return {
        sink: [payload for _, payload in items]
        for sink, items in results.items()
        if items and sink not in graph.calls
    }


def answered(graph: Graph, runs: Sequence[Run]) -> tuple[list[Run], Results]:
    """The runs with those of the answers to all that they ask, which are made here; and the results."""
    whole = list(runs)
    # again and again: an answer may lead to a further request
    while new := _answers(graph, results := interpret(graph, whole), whole):
        whole += new
    return whole, results


def _answers(graph: Graph, results: Results, runs: Sequence[Run]) -> list[Run]:
    """A run for each request without an answer, made here, behind all there are; if there is none, the end of
    the next call that has event time."""
    if not graph.calls:
        return []
    from flamestream.asking import answer_here  # a thread and a loop, for graphs that ask

    fronts = {vertex.name: FrontId(front) for front, vertex in enumerate(graph.sources)}
    there = {record.request for _, records in runs for record in records if type(record) is Answer}
    last, made = max((time for time, _ in runs), default=START), list[Run]()
    rounds = Rounds(graph, {front: name for name, front in fronts.items()})
    for name, function in calls_of(graph).items():
        for request, payload in results[name]:
            if request not in there:
                last = next_time(last, fronts[name])
                call = Call(id_of(graph.name, graph.calls[name].stored_as, request))
                error = rounds.too_often(name, request)
                answer = (
                    answer_here(function, request, payload, call)
                    if error is None
                    else Answer(request, hash_of(encode(payload)), error=error)
                )
                made += [(last, run) for run in rounds.runs(fronts[name], [answer])]
    if made:
        return made
    ended = {front_of(time) for time, records in runs if list(records) == [ENDED]}
    calls = (vertex for vertex in graph.sources if vertex.call is not None and vertex.timing is not None)
    front = next((front for call in calls if (front := fronts[call.name]) not in ended), None)
    return [] if front is None else [(next_time(last, front), [ENDED])]


def runs_of(graph: Graph, records: Iterable[tuple[str, Any]], *, ended: bool = True) -> list[Run]:
    """Each record, with its source, as a run of its own, in this order; then `ended` sources with event time
    tell so.

    An `fs.Arrived` is a run at its own time, behind all records that are none. Raises UserError for a time
    that is none.
    """
    fronts = {vertex.name: FrontId(front) for front, vertex in enumerate(graph.sources)}
    runs, taken = list[Run](), set[Time]()
    for at, (name, record) in enumerate(records, 1):
        arrives = type(record) is Arrived
        time = time_of(_moment(record) if arrives else Timestamp(at), fronts[name])
        while time in taken:
            time = next_time(time, fronts[name])
        taken.add(time)
        runs.append((time, [record.record if arrives else record]))
    last = max(taken, default=START)
    for vertex in graph.sources if ended else ():
        if vertex.timing is not None and vertex.call is None:  # a call's front ends behind its answers
            last = next_time(last, fronts[vertex.name])
            runs.append((last, [ENDED]))
    return runs


def _moment(record: Arrived) -> Timestamp:
    at = ARRIVAL.read(record.at, Arrived)
    if not 0 < at <= MAX_TIMESTAMP:
        raise UserError(f"fs.Arrived(..., at={record.at!r}): a record arrives after 1970 and before 2112")
    return Timestamp(at)
