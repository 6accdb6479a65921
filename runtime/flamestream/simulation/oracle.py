"""The oracle of a simulated run: what has entered, and what every sink must therefore get.

It knows what no part of the engine knows: every journal entry the moment it is durable, and in advance the
runs of timed fronts, which follow from their input alone. It interprets runs in the order of time, only as
far as somebody claims that time has passed; a run that turns up below is then the proof that the claim was
false.

Does not: watch the engine (invariants.py). Shares no code with it but graph, metas and the payload encoding,
as reference.py.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Any

from flamestream.core.protocol.events import Entry
from flamestream.core.worker.front import RunRecords
from flamestream.model import payload as codec
from flamestream.model.calls.call import Answer, hash_of
from flamestream.model.calls.loops import asks_outside, heads_of, most_rounds
from flamestream.model.event_time import ENDED, Marker
from flamestream.model.graph import Graph
from flamestream.model.ids import Offset, Partition, SinkName, Slot
from flamestream.model.meta import Meta, first_component, floor, time_of_meta
from flamestream.model.slot import slot_of
from flamestream.model.time import END, START, FrontId, Time, Timestamp, step_after
from flamestream.reference import State
from flamestream.simulation.outside.producers import SimRecord, SourceSite
from flamestream.simulation.timeline import Timeline, Walked
from flamestream.simulation.world import World

Item = tuple[bytes, bytes]
"""(meta, encoded payload)."""


@dataclass(slots=True)
class Expected:
    """The items that a slot of a sink must get, so far."""

    metas: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)


class Oracle:
    """The truth of one run."""

    def __init__(
        self,
        world: World,
        graph: Graph,
        sites: Iterable[SourceSite],
        sources: dict[FrontId, str],
        slots: int,
        dead_letter: SinkName | None,
        *,
        all_told: bool = False,
        newest: Graph | None = None,
    ) -> None:
        """`all_told`: runs of timed fronts are told as well, since some of their input may be skipped. `newest`:
        the last graph of a run whose code is changed, which has all sources."""
        self.reached = START
        """Runs below have been interpreted."""
        self.error_at: Time | None = None
        """Under `onError: fail`: the first run with an error, where everything ends."""
        self._error_run: tuple[Time, FrontId, Partition, Offset, int] | None = None
        self.slots: dict[tuple[SinkName, Slot], Expected] = {}
        self.runs: list[tuple[Time, FrontId, Partition, Offset, int]] = []
        """All that were interpreted, ascending."""
        self._again = (world, list(sites), sources, slots, dead_letter)
        self._newest = newest or graph
        self._world = world
        self._line = Timeline(graph, sources)
        self._sites = {site.front: site for site in sites}
        self._sources = {
            front: next(v for v in self._newest.sources if v.name == name) for front, name in sources.items()
        }
        self._slot_count = slots
        self.dead_letter = dead_letter
        self.requests: dict[str, dict[bytes, bytes]] = {name: {} for name in graph.calls}
        """The payload of each request, by its call and its meta."""
        self.answered: dict[str, set[bytes]] = {name: set() for name in graph.calls}
        """Requests whose answer has entered."""
        self._heads = heads_of(graph)
        self._behind_answers: dict[tuple[Time, int], int] = {}
        """Answers that an answer of a call in a loop has behind it, with itself: by the time of its run and its
        place there."""
        self._walk = Walked(self._line)
        self._at_commits = Follower(self)
        self._waiting: list[tuple[Time, FrontId, Partition, Offset, int]] = []
        self._offsets: dict[tuple[FrontId, Partition], int] = {}
        self._last: dict[FrontId, Time] = {}
        self._markers: dict[Time, Marker] = {}
        """Markers of runs without records."""
        self._ended: set[FrontId] = set()
        """Journalled fronts that have told their end."""
        self._foreseen = {site.front for site in self._sites.values() if site.timed and not all_told}
        """Fronts whose runs follow from their input alone."""
        self._gone: dict[FrontId, int] = {}
        """How many records of those have entered that are away."""
        self._begun: dict[FrontId, Time] = {}
        """Behind which times fronts begin; of those that have."""
        self.all_begin = True
        """Whether every source of the graph takes part."""

    @property
    def graph(self) -> Graph:
        """The graph that the newest runs are of."""
        return self._line.graph

    def tick(self, time: Time, graph: Graph) -> None:
        """Runs at or above `time` are another graph's; each of its operations has the state of the one of its
        name."""
        self.advance(time)
        newest = self.runs[-1][0] if self.runs else START
        self._world.require(
            newest < time,
            "12 ticks",
            f"other code goes on from {time}, and the code before has given results of {newest}",
        )
        self._line.tick(time, graph)
        if self._error_run is not None:  # what the code before has failed at is the new one's
            heappush(self._waiting, self._error_run)
            self.error_at = self._error_run = None

    def has(self, name: str) -> bool:
        """Whether the graph of now has a source of this name."""
        return any(vertex.name == name for vertex in self.graph.sources)

    def begins(self, front: FrontId, name: str, behind: Time) -> None:
        """A front takes part, and its first run is behind a time."""
        right = self._sources[front].name
        self._world.require(
            name == right, "13 fronts", f"front {front} is of {name}, and was to be of {right}"
        )
        if front not in self._begun or front in self._gone:
            self._begun[front] = behind
            first = self._gone.pop(front, 0)
            if front in self._foreseen:
                self._foresee(self._sites[front], behind, first)

    def gone(self, front: FrontId, cut: Time) -> None:
        """A front takes part no more: nothing that it has read is at or above `cut`."""
        above = [run for run in self.runs if run[1] == front and run[0] >= cut]
        above += [run for run in self._waiting if run[1] == front and run[4] and front not in self._foreseen]
        self._world.require(
            not above, "13 fronts", f"front {front} goes with {above}, and is to be cut at {cut}"
        )
        self._waiting = [run for run in self._waiting if run[1] != front]
        heapify(self._waiting)
        self._gone[front] = sum(run[4] for run in self.runs if run[1] == front)

    def begun(self, front: FrontId) -> Time:
        """Behind which time a front begins."""
        return self._begun.get(front, START)

    def _foresee(self, site: SourceSite, behind: Time, first: int = 0) -> None:
        last = behind
        for run in timed_runs(site, behind, first):
            heappush(self._waiting, run)
            last = run[0]
        if self._sources[site.front].timing is not None and not site.open:
            self._add_end(site, step_after(last, site.front, site.step))

    def anew(self, graph: Graph | None = None, *, all_told: bool = False) -> "Oracle":
        """The truth of an attempt that starts empty: nothing has entered. `graph`: the one that it has all the
        time."""
        world, sites, sources, slots, dead_letter = self._again
        # Answers are of the attempt that asked.
        fresh = [
            replace(site, partitions={name: [] for name in site.partitions})
            if self._of_call(site.front)
            else site
            for site in sites
        ]
        first = graph or self._line.first
        fresh_one = Oracle(
            world, first, fresh, sources, slots, dead_letter, all_told=all_told, newest=self._newest
        )
        fresh_one._line.ticks += [] if graph else self._line.ticks
        of_graph = [] if graph is None else [f for f, v in self._sources.items() if fresh_one.has(v.name)]
        for front, behind in {**self._begun, **dict.fromkeys(of_graph, START)}.items():
            fresh_one.begins(front, self._sources[front].name, behind)
        return fresh_one

    def _of_call(self, front: FrontId) -> bool:
        return self._sources[front].call is not None

    def _add_end(self, site: SourceSite, time: Time) -> None:
        """The run by which a timed front tells that its input has ended."""
        ((partition, records),) = site.partitions.items()
        self._markers[time] = ENDED
        heappush(self._waiting, (time, site.front, partition, Offset(len(records)), 0))

    # --- what enters ----------------------------------------------------------------------------------------

    def durable(self, front: FrontId, entry: Entry) -> None:
        """A journal entry counts from now on."""
        world, key = self._world, (front, entry.partition)
        world.require(
            entry.time > self._last.get(front, START),
            "1 minimal time",
            f"front {front} stamped {entry.time} out of order",
        )
        self._last[front] = entry.time
        # It brings nothing, and nothing may be stamped at or below it any more.
        if entry.is_pledge:
            return
        name = self._sources[front].name
        if name in self.requests and entry.moves:
            self._answers(name, front, entry)
        world.require(
            entry.time >= self.reached,
            "1 minimal time",
            f"a run of front {front} enters at {entry.time}, below {self.reached}",
        )
        world.require(
            not entry.moves or front not in self._ended,
            "3 input",
            f"records of front {front} enter at {entry.time}, behind its end",
        )
        expected = self._offsets.get(key, 0)
        world.require(
            entry.first == expected,
            "3 input",
            f"records {entry.first}.. of {key} entered, {expected} was next",
        )
        have = len(self._sites[front].partitions.get(entry.partition, ()))
        world.require(
            entry.first + entry.count <= have, "3 input", f"{entry} of front {front}: the producer has {have}"
        )
        if entry.moves:
            self._offsets[key] = entry.next
        else:
            self._markers[entry.time] = marker = codec.decode_many(entry.payloads)[0]
            if marker == ENDED:
                self._ended.add(front)
        heappush(self._waiting, (entry.time, front, entry.partition, entry.first, entry.count))

    def skipped(self, front: FrontId, partition: Partition, upto: Offset) -> range:
        """Records below `upto` that have not entered, and will not any more; those it is news of."""
        key = (front, partition)
        found = range(self._offsets.get(key, 0), upto)
        if found:
            self._offsets[key] = upto
        return found

    def _answers(self, name: str, front: FrontId, entry: Entry) -> None:
        """Answers of the outside are input from now on: one a request."""
        records = self._sites[front].partitions[entry.partition]
        for place, payload in enumerate(codec.decode_many(entry.payloads)):
            records.append(SimRecord(payload, 0, Timestamp(0)))
            if isinstance(payload, Answer):
                # it claims that its request is final
                self.advance(Time(time_of_meta(Meta(payload.request)) + 1))
                requests, answered = self.requests[name], self.answered[name]
                fits = (
                    payload.request not in answered
                    and hash_of(requests.get(payload.request, b"")) == payload.hash
                )
                self._world.require(
                    fits, "11 calls", f"{name} is answered twice, or what it asked is no request: {payload}"
                )
                answered.add(payload.request)
                if name in self._heads:
                    self._goes_round(name, payload, (entry.time, place))

    def _goes_round(self, call: str, answer: Answer, place: tuple[Time, int]) -> None:
        """An answer in a loop says that it has gone round too often if it has, and else what the outside said."""
        request = Meta(answer.request)
        rounds = self._behind_answers.get((time_of_meta(request), first_component(request)), 0)
        self._behind_answers[place] = rounds + asks_outside(call)
        refused = answer.error is not None and answer.error.error == "LoopLimit"
        self._world.require(
            refused == (asks_outside(call) and rounds > most_rounds(self._heads)),
            "11 calls",
            f"{rounds} answers are behind a request, and this one {'is no' if refused else 'is an'} answer: {answer}",
        )
        if refused:
            self._world.trace.cover("loop.ended by its limit")

    def unanswered(self) -> list[str]:
        """Requests without an answer."""
        return [
            f"{name} for {codec.decode(payload)!r} at {meta.hex()}"
            for name, requests in self.requests.items()
            for meta, payload in requests.items()
            if meta not in self.answered[name]
        ]

    def missing_input(self) -> list[str]:
        """Records of journalled fronts that have not entered, fronts that have not begun, and ends that are still
        to be told."""
        new = self._sources.keys() - self._begun.keys() if self.all_begin else ()
        waiting = [front for front in sorted(new) if self.has(self._sources[front].name)]
        here = self._begun.keys() - self._foreseen - self._gone.keys()
        journalled = [(front, self._sites[front]) for front in sorted(here)]
        return [
            f"front {front} {partition} from {self._offsets.get((front, partition), 0)} of {len(records)}"
            for front, site in journalled
            for partition,
            records in site.partitions.items() if self._offsets.get((front, partition), 0) < len(records)
        ] + [f"the end of front {front}" for front, site in journalled if self._has_to_end(front, site)] + [
            f"front {front} has not begun" for front in waiting
        ]  # fmt: skip

    def _has_to_end(self, front: FrontId, site: SourceSite) -> bool:
        """Whether its end is still to be told. A call's front ends behind all others."""
        vertex = self._sources[front]
        open_ones = [site, *(self._sites.values() if vertex.call is not None else ())]
        return bool(vertex.timing) and front not in self._ended and not any(each.open for each in open_ones)

    # --- what must come out ---------------------------------------------------------------------------------

    @property
    def over(self) -> Time:
        """All that there is to enter now is below; END, unless a source that is open will still tell its end.
        Those whose event time is when records arrive tell it again and again: below where the last of them
        is."""
        if self.requests:  # a request that nobody knows of yet may have an answer anywhere above
            return self.reached
        arriving = [front for front, site in self._sites.items() if site.open and self._arrives(front)]
        if arriving:
            return Time(min(self._last.get(front, START) for front in arriving) + 1)
        if not any(site.open and self._sources[front].timing for front, site in self._sites.items()):
            return END
        return Time(max([*self._last.values(), *(run[0] for run in self._waiting)], default=START) + 1)

    def _arrives(self, front: FrontId) -> bool:
        timing = self._sources[front].timing
        return timing is not None and timing.by_arrival

    def advance(self, time: Time) -> None:
        """Somebody claims that no run enters below `time` any more."""
        # (!) only what somebody claims is over
        while self._waiting and self._waiting[0][0] < time and self.error_at is None:
            self._interpret(heappop(self._waiting))
        self.reached = max(self.reached, time)

    def expected(self, sink: SinkName, slot: Slot) -> Expected:
        """The items that a slot must get, of all that was interpreted."""
        found = self.slots.get((sink, slot))
        if found is None:
            found = self.slots[sink, slot] = Expected()
        return found

    def due(self, cut: Time) -> Iterator[tuple[SinkName, Slot, int]]:
        """The number of items below `cut` of each slot of each sink."""
        limit = floor(cut)
        for (sink, slot), expected in sorted(self.slots.items()):
            yield sink, slot, bisect_left(expected.metas, limit)

    @property
    def state(self) -> State:
        """The state of every grouping and reduce behind all that was interpreted."""
        return self._walk.state

    def state_at(self, cut: Time) -> State:
        """The state of every grouping and reduce below `cut`; cuts must not go back."""
        return self._at_commits.state_at(cut)

    def walked(self) -> Walked:
        """The reference interpreter, at the beginning of this run."""
        return Walked(self._line)

    def walk(self, walked: Walked, run: tuple[Time, FrontId, Partition, Offset, int]) -> None:
        """Have it interpret the next of `runs`."""
        time, front, partition, first, count = run
        walked.run(front, time, self._records(time, front, partition, first, count))

    def position_at(self, front: FrontId, cut: Time) -> tuple[Time, dict[Partition, Offset]]:
        """The last stamp of `front` below `cut`, and where its partitions stand."""
        last, offsets = self.begun(front), dict[Partition, Offset]()
        for time, of, partition, first, count in self.runs:
            if of == front and time < cut:
                last = max(last, time)  # one that came back begins above what it had
                if time not in self._markers:
                    offsets[partition] = Offset(first + count)
        return last, offsets

    def _interpret(self, run: tuple[Time, FrontId, Partition, Offset, int]) -> None:
        time, front, partition, first, count = run
        name = self._sources[front].name
        known = name in self._walk.sources(time)
        self._world.require(
            known, "13 fronts", f"{name} enters at {time}, where the graph has no such source"
        )
        before = dict(self._walk.state) if self.dead_letter is None else None
        reached = self._walk.run(front, time, self._records(time, front, partition, first, count))
        if self.dead_letter is None and any(name == self._walk.errors for name, _, _ in reached):
            # The job ends below this run: nothing of it may come out, its other results neither.
            self.error_at, self._error_run = time, run
            self._walk.state = before or {}
            return
        self.runs.append(run)
        for name, meta, payload in reached:
            encoded = codec.encode(payload)
            if name in self.requests:
                self.requests[name][meta] = encoded
                continue
            sink = (
                self.dead_letter
                if name == self._walk.errors and self.dead_letter is not None
                else SinkName(name)
            )
            expected = self.expected(sink, self._slot(name, payload, encoded))
            # Ascending, as the order of a walk is that of metas: whoever looks may bisect.
            expected.metas.append(meta)
            expected.payloads.append(encoded)

    def _slot(self, name: str, payload: Any, encoded: bytes) -> Slot:
        key = next((vertex.key for vertex in self._walk.graph.sinks if vertex.name == name), None)
        return slot_of(encoded if key is None else codec.encode(key(payload)), self._slot_count)

    def _records(
        self, time: Time, front: FrontId, partition: Partition, first: Offset, count: int
    ) -> list[object]:
        if (marker := self._markers.get(time)) is not None:
            return RunRecords([marker], Entry(START, partition, first, 0))
        # With their places, which error items name.
        records = self._sites[front].partitions[partition][first : first + count]
        return RunRecords((record.payload for record in records), Entry(START, partition, first, count))


class Follower:
    """The state at one cut after the other: a walk does not go back, and the oracle's own is ahead of them."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle, self._walked, self._runs = oracle, oracle.walked(), 0

    def state_at(self, cut: Time) -> State:
        """The state of every grouping and reduce below `cut`; cuts must not go back."""
        runs = self._oracle.runs
        while self._runs < len(runs) and runs[self._runs][0] < cut:
            self._oracle.walk(self._walked, runs[self._runs])
            self._runs += 1
        return self._walked.state_at(cut)


def timed_runs(
    site: SourceSite, behind: Time = START, first: int = 0
) -> Iterator[tuple[Time, FrontId, Partition, Offset, int]]:
    """The runs that a timed front stamps: cut at multiples of its run length, each a step after the one
    before, the first behind `behind`. `first`: of the first record."""
    last = behind
    ((partition, records),) = site.partitions.items()
    while first < len(records):
        last, count = step_after(last, site.front, site.step), site.run_length - first % site.run_length
        count = min(count, len(records) - first)
        yield last, site.front, partition, Offset(first), count
        first += count
