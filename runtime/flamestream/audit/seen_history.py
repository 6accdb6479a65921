"""Seen history: the lines of a history file as records and results of a job.

Keeps: a line that does not fit the job is told with its number. Does not: open a source or a sink, or judge
(judged_history.py).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flamestream.audit.definitions.history import Crashed, Recovered
from flamestream.audit.definitions.records import Emitted, Record
from flamestream.audit.definitions.steps import Result
from flamestream.audit.history_file import (
    Line,
    canonical,
    canonical_text,
    failure_of,
    first_results,
    lines,
    wrong,
)
from flamestream.connectors import sources
from flamestream.connectors.kit.rows import BadRow, Rows, row_class
from flamestream.job.validation import CheckedJob
from flamestream.model.decoding import DecodeError
from flamestream.model.errors import UserError
from flamestream.model.failure import told
from flamestream.model.meta import meta_of
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.model.vertex import Vertex


class SeenHistory:
    """A history in a file: its events in their order. It can be read again and again."""

    def __init__(self, checked: CheckedJob, path: Path) -> None:
        self._graph, self._path = checked.graph, path
        self._fronts = {vertex.name: FrontId(front) for front, vertex in enumerate(checked.graph.sources)}
        self._rows = {name: _rows(checked, name) for name in self._fronts}
        self._sinks = {vertex.name for vertex in checked.graph.sinks}
        self._firsts: Mapping[str, tuple[int, Line]] = first_results(path, self._sinks)
        self.ended = False
        """Whether the file said so, when it was read to its end."""

    def events(self) -> Iterator[Record | Emitted | Crashed | Recovered]:
        """Events of the file, a line each. Raises UserError."""
        self.ended = False
        for number, line in lines(self._path):
            if line.came_in is not None:
                yield self._record(number, line.came_in, line)
            elif line.came_out is not None:
                yield self._emitted(number, line.came_out, line)
            elif (failure := failure_of(number, line)) is not None:
                yield failure
            self.ended = line.end

    def outlet(self, sink: Vertex | None, payload: Any) -> Result:
        """Where a result of the reference would stand in the file. Raises UserError for an error item."""
        if sink is None:
            place = f":{payload.offset}" if payload.offset >= 0 else ""  # unknown behind a door
            raise UserError(
                f"{self._path}{place}: a history is judged by functions that fail for none of its records: "
                + told(payload, f"a record of source {payload.source!r}", self._graph)
            )
        if not self._has_keys(sink.name):
            return sink.name, canonical(payload)
        key = payload if sink.key is None else sink.key(payload)
        return (sink.name, canonical(key)), canonical(payload)

    def _has_keys(self, sink: str) -> bool:
        """Whether results of the sink have keys: its first one says so for all."""
        return sink in self._firsts and self._firsts[sink][1].has_key

    def _record(self, number: int, source: str, line: Line) -> Record:
        """Record of a line, whose number is its time and its offset."""
        if source not in self._rows:
            raise wrong(
                self._path, number, f"the job has no source {source!r}; it has {', '.join(self._fronts)}"
            )
        try:
            value = self._rows[source].of_json(bytes(line.value))
        except (BadRow, ValueError) as error:
            raise wrong(self._path, number, f"the value is no record of {source!r}: {error}") from error
        meta = meta_of(time_of(Timestamp(number), self._fronts[source]), 0)
        return Record(number, (source, line.partition), source, meta, value, ("", number))

    def _emitted(self, number: int, sink: str, line: Line) -> Emitted:
        if sink not in self._sinks:
            raise wrong(
                self._path, number, f"the graph has no sink {sink!r}; it has {', '.join(sorted(self._sinks))}"
            )
        if line.has_key != self._has_keys(sink):
            raise wrong(
                self._path, number, f"a result of {sink!r} {'with' if line.has_key else 'without'} a key, though "
                f"the one in line {self._firsts[sink][0]} has {'none' if line.has_key else 'one'}: all of a "
                "sink, or none",
            )  # fmt: skip
        try:
            to = (sink, canonical_text(line.key)) if line.has_key else sink
            return Emitted(number, to, canonical_text(line.value))
        except DecodeError as error:
            raise wrong(self._path, number, f"the value or key is no JSON: {error}") from error


def _rows(checked: CheckedJob, source: str) -> Rows:
    """Maker of a source's records from JSON."""
    where = f"spec.sources.{source}"
    gives = sources.settings_of(checked.job.source(source), where).gives()
    return Rows(row_class(gives.cls, where))
