"""A job for DataFrames: what the batch runner, the micro-batch runner and the audit need to know of a
manifest.

Does not: read the manifest (the command line does), or start Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flamestream.model.failure import told
from flamestream.model.meta import Meta, first_component, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.quoted import plain
from flamestream.model.time import Time, front_of
from flamestream.spark.frames.delivering import SinkPlace
from flamestream.spark.frames.inputs import Input
from flamestream.spark.frames.job_graph import JobGraph
from flamestream.spark.frames.tasks import Meaning


@dataclass(frozen=True, slots=True)
class FrameJob:
    """A checked job. `dead_letter`: the sink of error items; None is `onError: fail`."""

    name: str
    graph: JobGraph
    slots: int
    inputs: tuple[Input, ...]
    sinks: Mapping[str, dict[str, Any]]
    dead_letter: str | None = None
    exactly_once: bool = True
    debug: bool = False

    def meaning(self, *, keep_state: bool = False) -> Meaning:
        """Everything a task has to know of the job."""
        sources = tuple((each.source.front.front, each.name) for each in self.inputs)
        return Meaning(self.graph, self.slots, self.dead_letter is None, self.debug, keep_state, sources)

    def sink_places(self) -> dict[int, SinkPlace]:
        """Places of sinks by vertex number, that of error items included."""
        graph = self.graph.get()
        sinks = [vertex for vertex in graph.sinks if vertex.call is None]
        places = {vertex.id: SinkPlace(vertex.name, self.sinks[vertex.name]) for vertex in sinks}
        if self.dead_letter is not None:
            places[len(graph.vertices)] = SinkPlace(self.dead_letter, self.sinks[self.dead_letter])
        return places

    def calls(self) -> dict[int, str]:
        """Calls, by the vertex that their requests go to."""
        return {vertex.id: name for name, vertex in self.graph.get().calls.items()}

    def told(self, meta: Meta, error: ErrorValue) -> str:
        """An error item that ends the job, as the streaming runner tells it."""
        time = time_of_meta(meta)
        source = next(each for each in self.inputs if each.source.front.front == front_of(time))
        return plain(told(error, f"{_place(source, time, meta)} of source {source.name!r}", self.graph.get()))


def _place(source: Input, time: Time, meta: Meta) -> str:
    index = first_component(meta)
    if not source.source.front.timed:
        return f"record {index} of the run at time {time}"
    return f"record {source.stamps.runs_below(time) * source.stamps.run_length + index}"
