"""Clients that ask for states while a run goes on, and what they are to be told.

Each asks some worker for a few keys that have a state, and now and then goes before it is answered. What it was told
is judged at the end, in the order of times: all of an answer is the reference's state at its cut, and one that is
strict is not behind anything that was seen before it was asked for, be it a result or another answer.

Does not: draw from the run's own randomness, so a run without clients is as it was; judge where a failure may undo
what was shown (`none`, `at-most-once`).
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from flamestream.core.dataflow.placing import lookup_of
from flamestream.core.protocol.actions import Answered, NotAnswered
from flamestream.core.protocol.events import Queried, QueryLeft
from flamestream.core.protocol.matching import fits
from flamestream.core.protocol.queries import Lookup, Matching, Scan
from flamestream.core.protocol.stored_rows import encoded_head
from flamestream.core.worker.queries.gateway import not_strict
from flamestream.model import payload as codec
from flamestream.model.tables.ledger import Deciding
from flamestream.model.time import START, Time
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.oracle import Follower, Oracle
from flamestream.simulation.settings import Plan
from flamestream.simulation.stored_state import buckets_of
from flamestream.simulation.worker_node import WorkerNode
from flamestream.simulation.world import World

INVARIANT = "14 queries"


@dataclass(frozen=True, slots=True)
class Told:
    """A query with its answer."""

    query: Queried
    asked: int
    """When it was asked for, in microseconds of virtual time."""
    shown: Time
    """All runs at or below it had results or answers that somebody had seen when it was asked for."""
    answer: Answered


def asked(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Clients ask now and then, in a run as it is drawn."""
    return replace(drawn, asks_every=3_000), chosen


class Clients:
    """All clients of a run."""

    def __init__(
        self, world: World, plan: Plan, oracle: Oracle, living: Callable[[], list[WorkerNode]],
        seen: Callable[[Told], None],
    ) -> None:  # fmt: skip
        """`seen` is shown each query when it is answered."""
        self._world, self._plan, self._oracle, self._living = world, plan, oracle, living
        self._seen = seen
        self._rng = Random(f"{world.seed} clients")
        self._may_be_strict = not not_strict(plan.worker)
        self._asked: dict[int, tuple[Queried, int, Time]] = {}
        self._numbers = 0
        self._told: list[Told] = []
        self._shown = START

    def start(self) -> None:
        """Ask now and then, to the end of the run."""
        self._world.after(self._rng.randrange(1, 2 * self._plan.asks_every), self._ask)

    def saw(self, time: Time) -> None:
        """Somebody has a result of a run at `time`."""
        self._shown = max(self._shown, time)

    def take(self, action: Answered | NotAnswered) -> None:
        """A worker answers."""
        found = self._asked.pop(action.number, None)
        if found is None:
            return
        query, asked, shown = found
        if isinstance(action, NotAnswered):
            self._world.trace.cover("query.refused")
            refused = query.strict and not self._may_be_strict
            self._require(action.again or refused, f"query {query.number} gets no answer: {action.reason}")
            return
        kind = "strict" if query.strict else "stale"
        self._world.trace.cover(f"query.{kind}{' scan' if query.scan is not None else ''}")
        told = Told(query, asked, shown, action)
        self._told.append(told)
        self._seen(told)
        self._oracle.advance(action.time)  # a run that enters below is found
        self.saw(Time(action.time - 1))

    def _ask(self) -> None:
        rng, nodes = self._rng, self._living()
        self._world.after(rng.randrange(1, 2 * self._plan.asks_every), self._ask)
        keys = self._keys()
        if not nodes or not keys:
            return
        self._numbers += 1
        lookups = [rng.choice(keys) for _ in range(rng.choice([1, 1, 2, 5]))]
        strict = rng.random() < (0.6 if self._may_be_strict else 0.1)
        at_least = self._shown if rng.random() < 0.3 else START
        query = Queried(self._numbers, lookups, strict, at_least)
        if rng.random() < 0.3:
            after = rng.choice(keys).key if rng.random() < 0.3 else b""
            matching = Matching(self._head(lookups[0]), rng.choice([None, None, "a"]))
            scan = Scan(lookups[0].vertex, matching, after, rng.choice([1, 3, 100]))
            query = Queried(self._numbers, [], strict, at_least, scan)
        self._asked[query.number] = query, self._world.now, self._shown
        node = rng.choice(nodes)
        node.post(query)
        if rng.random() < 0.1:
            node.post_later(rng.randrange(1, 2_000), QueryLeft(query.number))

    def _keys(self) -> list[Lookup]:
        slots = self._plan.worker.slots
        graph = self._oracle.graph
        return [
            lookup_of(graph.vertices[vertex], key, slots)
            for (vertex, key), _ in buckets_of(graph, self._oracle.state)
        ]

    def _head(self, lookup: Lookup) -> bytes:
        """The beginning of all keys of its state: of a row those of its table."""
        is_row = isinstance(self._oracle.graph.vertices[lookup.vertex].combine, Deciding)
        return encoded_head(codec.decode(lookup.key)[0]) if is_row else b""

    # --- at the end -----------------------------------------------------------------------------------------

    def judge(self) -> None:
        """All that was told is right."""
        times = [run[0] for run in self._oracle.runs]
        follower = Follower(self._oracle)
        for told in sorted(self._told, key=lambda each: each.answer.time):
            query, cut = told.query, told.answer.time
            needed = max(query.at_least, Time(told.shown + 1) if query.strict else START)
            missing = bisect_left(times, needed) - bisect_left(times, cut)
            self._require(
                missing <= 0, f"query {query.number}, of {cut}, lacks {missing} runs below {needed}"
            )
            state = dict(buckets_of(self._oracle.graph, follower.state_at(cut)))
            if query.scan is None:
                self._states(query.lookups, told.answer, state)
            else:
                self._scanned(query.scan, told.answer, state)

    def _states(
        self, lookups: Sequence[Lookup], answer: Answered, state: Mapping[tuple[int, bytes], Any]
    ) -> None:
        for lookup, got in zip(lookups, answer.states, strict=True):
            key = lookup.vertex, lookup.key
            wanted = codec.encode(state[key]) if key in state else None
            self._require(
                got == wanted, f"query {answer.number}, of {answer.time}: {lookup} is {got!r}, not {wanted!r}"
            )

    def _scanned(self, scan: Scan, answer: Answered, state: Mapping[tuple[int, bytes], Any]) -> None:
        """Every key that is meant, behind the one that it goes on from, up to the one that it says."""
        keys = sorted(
            key
            for vertex, key in state
            if vertex == scan.vertex and key > scan.after and fits(scan.matching, key)
        )
        wanted = [
            (key, codec.encode(state[scan.vertex, key]))
            for key in keys
            if not answer.upto or key <= answer.upto
        ]
        got = list(zip(answer.keys, answer.states, strict=True))
        self._require(
            got == wanted, f"query {answer.number}, of {answer.time}: {scan} is {got}, not {wanted}"
        )
        self._require(len(got) <= scan.limit, f"query {answer.number} gives {len(got)} keys: {scan}")

    def _require(self, holds: bool, detail: str) -> None:
        self._world.require(holds, INVARIANT, detail)
