"""What came of a core cluster's run, beside what the reference interpreter says: slot by slot, byte by byte.

Does not: run anything (core_cluster.py).
"""

from dataclasses import dataclass, field
from typing import Any

from flamestream.core.protocol import events as ev
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.worker.front import RunRecords
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Fence, Offset, Partition, SinkName, Slot, WorkerId
from flamestream.model.meta import time_of_meta
from flamestream.model.slot import slot_of
from flamestream.model.time import START, FrontId, Time, next_time
from flamestream.reference import ERRORS as ERROR_ITEMS
from flamestream.reference import interpret

Item = tuple[bytes, bytes]
"""(meta, encoded payload)."""


@dataclass
class Source:
    """One front's records, and how far they may be given."""

    records: list[Any] = field(default_factory=list)
    ended: bool = False
    told_end: bool = False
    next: int = 0
    grant: int = 0
    follower: WorkerId | None = None
    fence: Fence = NO_FENCE


@dataclass
class Sink:
    """One consumer: what each slot has taken, and its last bundle."""

    taken: dict[Slot, list[Item]] = field(default_factory=dict)
    last: dict[Slot, ev.LastBundle] = field(default_factory=dict)
    opened: dict[Slot, Fence] = field(default_factory=dict)


class Outcome:
    """What has entered, what was delivered, and whether that is right."""

    graph: Graph
    settings: WorkerSettings
    sources: dict[FrontId, Source]
    journals: dict[FrontId, list[ev.Entry]]
    sinks: dict[SinkName, Sink]

    def runs(self) -> list[tuple[Time, list[Any]]]:
        """What has entered: by the journals, and for timed fronts by their input alone."""
        runs: list[tuple[Time, list[Any]]] = []
        for front in self.settings.fronts:
            records = self.sources[front.front].records
            if front.timed:
                time, rest = START, 0 if self.sources[front.front].ended else len(records) % front.run_length
                for first in range(0, len(records) - rest, front.run_length):
                    time = next_time(time, front.front)
                    run = records[first : first + front.run_length]
                    runs.append(
                        (time, RunRecords(run, ev.Entry(time, Partition(""), Offset(first), len(run))))
                    )
            else:
                entries = self.journals[front.front]
                runs += [
                    (each.time, RunRecords(records[each.first : each.first + each.count], each))
                    for each in entries
                ]
        return sorted(runs, key=lambda run: run[0])

    def expected(self) -> dict[SinkName, dict[Slot, list[Item]]]:
        """What each slot of each sink must have in the end, by the reference interpreter."""
        dead = self.settings.dead_letter
        results = interpret(self.graph, self.runs(), "fail" if dead is None else "dead-letter")
        errors = results.pop(ERROR_ITEMS)
        found = {vertex.name: (vertex.key, results[vertex.name]) for vertex in self.graph.sinks}
        if dead is not None:
            found[dead] = (None, sorted(errors))
        expected: dict[SinkName, dict[Slot, list[Item]]] = {}
        for name, (key, items) in found.items():
            slots = expected.setdefault(SinkName(name), {})
            for meta, payload in items:
                slot = slot_of(codec.encode(payload if key is None else key(payload)), self.settings.slots)
                slots.setdefault(slot, []).append((meta, codec.encode(payload)))
        return expected

    def delivered(self) -> dict[SinkName, dict[Slot, list[Item]]]:
        return {name: sink.taken for name, sink in self.sinks.items()}

    def check(self) -> None:
        """Exactly what the reference says, slot by slot, byte by byte."""
        missing = [front for front, source in self.sources.items() if source.ended and not source.told_end]
        assert not missing, f"fronts {missing} were not read to their end"
        assert self.delivered() == self.expected()

    def check_prefix(self) -> None:
        """Nothing else than what the reference says, as far as it goes."""
        expected = self.expected()
        for name, slots in self.delivered().items():
            for slot, items in slots.items():
                assert items == expected[name].get(slot, [])[: len(items)], f"slot {slot} of {name}"

    def failing_run(self) -> Time | None:
        """By the reference, under `fail`: the run that everything stops at."""
        errors = interpret(self.graph, self.runs(), "fail")[ERROR_ITEMS]
        return time_of_meta(errors[0][0]) if errors else None
