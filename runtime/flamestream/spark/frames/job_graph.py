"""How a graph gets to the tasks: as a file that each process loads once, or pickled by value for graphs made
in a notebook.

A pickled graph brings the payload types along that its process had registered, because a class that is
pickled by value would otherwise be unknown where it arrives.

Keeps: one copy a process. Does not: unpickle anything that did not come with a Spark task of this job, which
is code anyway.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from flamestream.job.application import load
from flamestream.job.py_files import PyFile
from flamestream.model.event_time import take_in_sequence
from flamestream.model.graph import Graph
from flamestream.model.payloads.classes import payload_type
from flamestream.model.payloads.registry import FIRST_CLASS_TAG, PLANS, TO_WIRE


class JobGraph(Protocol):
    """Picklable."""

    def get(self) -> Graph:
        """The validated graph in this process."""
        ...


@dataclass(frozen=True, slots=True)
class FromFile:
    """The graph `name` of the application `file`, which must be there on every machine."""

    file: str
    name: str
    py_files: tuple[PyFile, ...] = ()
    """Files that the application needs on its path, by content."""
    in_sequence: tuple[str, ...] = ()
    """Sources whose partitions event time takes for one."""
    productions: bool = False
    """With a call in the place of each chain of its functions."""

    def get(self) -> Graph:
        graph = load(Path(self.file), self.name, self.py_files, productions=self.productions)
        take_in_sequence(graph, self.in_sequence)
        return graph


@dataclass(frozen=True, slots=True)
class ByValue:
    """A graph of this process."""

    pickled: bytes

    @classmethod
    def of(cls, graph: Graph) -> "ByValue":
        """Raises what cloudpickle raises if a function holds what cannot travel (a connection, a lock)."""
        from pyspark import cloudpickle

        types = [plan.cls for plan in PLANS.values() if plan.tag >= FIRST_CLASS_TAG]
        data: bytes = cloudpickle.dumps((graph.validated(), types))  # type: ignore[no-untyped-call]
        return cls(data)

    def get(self) -> Graph:
        return _unpickled(self.pickled)


@lru_cache(maxsize=8)
def _unpickled(data: bytes) -> Graph:
    from pyspark import cloudpickle

    found: tuple[Graph, list[Any]] = cloudpickle.loads(data)
    graph, types = found
    for cls in types:
        if cls not in TO_WIRE:
            payload_type(cls)
    return graph
