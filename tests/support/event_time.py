"""Event time in tests: a graph's results by the reference, and marks by a plain loop."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flamestream.lists import runs_of
from flamestream.model.graph import Graph
from flamestream.reference import interpret

Records = Sequence[tuple[str, Any]]
"""(source, record) pairs in the order in which they enter, each a run of its own."""


def results(graph: Graph, records: Records, *, ended: bool = True) -> dict[str, list[Any]]:
    """The items of each sink, and error items under `reference.ERRORS`. `ended`: all sources end behind the records."""
    found = interpret(graph.validated(), runs_of(graph, records, ended=ended))
    return {sink: [payload for _, payload in items] for sink, items in found.items()}


def judged(
    records: Iterable[tuple[str, Any, int]], sources: Iterable[str], late: int, step: int
) -> Iterator[tuple[Any, int, int | None]]:
    """(record, time, the mark before it) for each (source, record, time), by a plain loop: the least over
    sources of the greatest time less `late`, in whole steps; None until each source has brought a record."""
    greatest = dict.fromkeys(sources, None)
    for source, record, time in records:
        known = [each for each in greatest.values() if each is not None]
        mark = min(known) if len(known) == len(greatest) else None
        yield record, time, None if mark is None else (mark - late) // step * step
        before = greatest[source]
        greatest[source] = time if before is None else max(before, time)
