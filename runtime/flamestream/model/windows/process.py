"""Process: programs in event time, as a composition: a merge of items and marks, one reduce over shards of
keys, a flat_map.

    items  --> merge --> reduce by shard: (mark, states by place, places by when due) --> results of each step
    marks  -->

A key belongs to a shard by its canonical encoding. Times are kept in whole steps of the mark, rounded up, so
what a mark makes due is found without looking at other places (!).

Keeps: a key's program sees its items in total order, and each time it asked for once, before any item behind
the mark that passed it. What is due at one mark is called by time, then by place. Does not: know what
programs do (program.py). Source: section 6 of the design, which tried it as plain functions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any, Final

from flamestream.model.collections import Map, Set
from flamestream.model.duration import Micros, shown
from flamestream.model.errors import UserError
from flamestream.model.event_time import Dated
from flamestream.model.failure import FATAL, Raised, called, raised_before, said
from flamestream.model.payload import payload_type
from flamestream.model.payloads.codec import check, encode
from flamestream.model.slot import INT32_MIN, slot_of
from flamestream.model.state_names import Named, plain, short, within
from flamestream.model.stream import Stream
from flamestream.model.vertex import Function, Vertex, name_of
from flamestream.model.windows.marks import Mark, marks_of
from flamestream.model.windows.program import Failed, Late, Now, Program


@payload_type
@dataclass(frozen=True, slots=True)
class Side:
    """An item on its way into a program of several streams."""

    number: int
    item: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Shard:
    """The states of a shard's keys, by place."""

    mark: int | None
    states: Map[Any, Any]
    due: Map[Any, Any]
    """Number of a step -> the places that are due in it."""
    results: tuple[Any, ...]
    """Those of the last item or mark."""


class OfStates:
    """Function from a shard to one whose states a user's function has made of its states."""

    def __init__(self, up: Function) -> None:
        self._up, self.written = up, name_of(up)

    def __call__(self, shard: Shard) -> Shard:
        states = Map((place, self._up(state)) for place, state in shard.states.items())
        return replace(shard, states=states)


MOST_CALLS: Final = 100_000
"""Calls of `on_time` in one place at one item or mark: the last mark is behind all times, so a place that
always asks again would be called for ever."""
Told = tuple[Any, Sequence[Any], int | None]
"""(the state after it, results in order, when that state is due)."""


@dataclass(frozen=True, slots=True)
class Input:
    """A stream of a program: its key and its event time."""

    stream: Stream[Any]
    key: Function
    time: Function
    max_ahead: int | None = None
    """An item further ahead of the mark is an error item; None: any may be."""


def processed(inputs: tuple[Input, ...], program: Program, named: Named) -> Stream[Any]:
    """A tuple of results for each item and mark."""
    graph = inputs[0].stream.graph
    sources = frozenset(source.name for each in inputs for source in timed_sources(each.stream))
    streams = [each.stream for each in inputs]
    if len(streams) > 1:
        streams = [stream.map(on_side(number)) for number, stream in enumerate(streams)]
    first, *others = streams
    merged = first.merge(*others, marks_of(graph, sources)).balance(Even(graph.shards))
    steps = Steps(program, inputs, graph.step, graph.shards, sources)
    return merged.reduce(
        key=steps.shard, initial=Steps.initial, combine=steps, emit=_results, **within(named, OfStates)
    )


def timed_sources(stream: Stream[Any]) -> list[Vertex]:
    """The sources whose marks close what comes of a stream: those with an event time that lead to it."""
    graph = stream.graph
    return [
        source for source in graph.sources if source.timing and stream.vertex in graph.reachable(source.id)
    ]


def values(results: tuple[Any, ...]) -> Iterator[Any]:
    """Results without the items that came late."""
    return (result for result in results if type(result) is not Late)


def sound(result: Any) -> bool:
    """True. Raises for what a user's function raised: of one key, so that the results of others stay (!)."""
    if type(result) is Failed:
        raise raised_before(result.function, result.error, result.message)
    return True


def late_items(results: tuple[Any, ...]) -> Iterator[Any]:
    """Items that came late."""
    return (result.item for result in results if type(result) is Late)


def late_among(results: Any) -> int:
    """How many results of a step are items that came late; of an error none."""
    return sum(type(result) is Late for result in results) if type(results) is tuple else 0


class Steps:
    """The fold of a shard."""

    def __init__(
        self, program: Program, inputs: tuple[Input, ...], step: int, shards: int, sources: frozenset[str]
    ) -> None:
        self.state_name = plain(program.written)
        if len(inputs) == 1:
            self.state_name += f" by {short(inputs[0].key)}"
        # With other marks some would be behind those that were.
        marks = f"steps of {shown(Micros(step))} of {', '.join(sorted(sources))}"
        self.form = f"{program.form} in {shards} shards, {marks}"
        self.program, self.inputs, self.step, self.shards = program, inputs, step, shards
        self.written, self.keeps = program.written, program.keeps

    @staticmethod
    def initial() -> Shard:
        """No key."""
        return Shard(None, Map(), Map(), ())

    def shard(self, payload: Any) -> int:
        """Where an item's key is, or where a mark goes."""
        if type(payload) is Mark:
            return payload.shard
        side, item = (payload.number, payload.item) if type(payload) is Side else (0, payload)
        # By `called`: an error would else be blamed on this function, which is the vertex's key.
        return slot_of(encode(called(self.inputs[side].key, item)), self.shards)

    def __call__(self, shard: Shard, payload: Any) -> Shard:
        return self._passed(shard, payload.time) if type(payload) is Mark else self._came(shard, payload)

    def _came(self, shard: Shard, payload: Any) -> Shard:
        side, item = (payload.number, payload.item) if type(payload) is Side else (0, payload)
        key, now = self.key(side, item), Now(self.time(side, item, shard.mark), shard.mark, side)
        # Only now: key and time are asked of an item with its arrival.
        if type(item) is Dated:
            item = item.item
        # New versions of what is shared: whatever raises half-way leaves the shard as it was.
        states, due, results = shard.states, shard.due, list[Any]()
        places = self.program.places(key, now)
        for place in places:
            before = states.get(place)
            after, more, time = self.answered(place, before, item, now)
            results += more
            states, due = self._kept(states, due, place, before, after, self._bucket(time))
        return Shard(shard.mark, states, due, tuple(results) if places else (Late(item),))

    def key(self, side: int, item: Any) -> Any:
        """The key of an item."""
        return self.inputs[side].key(item)

    def time(self, side: int, item: Any, mark: int | None) -> int:
        """The event time of an item. Raises UserError if it is further ahead of the mark than its source
        allows."""
        each = self.inputs[side]
        time: int = each.time(item)
        if each.max_ahead is not None and mark is not None and time > mark + each.max_ahead:
            raise UserError(
                f"its event time is {(time - mark) / 1e6} s ahead of all that has come, more than its "
                "source's max_ahead; if nothing was to come for so long, give the source a greater max_ahead "
                "and go on with `flamestream run --changed`"
            )
        return time

    def answered(self, place: Any, before: Any, item: Any, now: Now) -> Told:
        """`on_item`, and `on_time` for as long as it asks for a time that has been."""
        after, results = self.program.on_item(place, before, item, now)
        due, results, calls = self._due(place, after), list(results), 0
        # At once (!): a later mark may not look again at steps that are over (`_between`).
        while self._is_due(due, now.mark):
            assert due is not None, "it is due"
            after, more, due = self.called(place, after, due, calls)
            results += more
            calls += 1
        return after, results, due

    def _kept(
        self, states: Map[Any, Any], due: Map[Any, Any], place: Any, before: Any, after: Any, new: int | None
    ) -> tuple[Map[Any, Any], Map[Any, Any]]:
        """States and times with `after`, which is due in the step `new`, in the place of `before`."""
        if after is not None:
            states = states.set(place, after)
        elif before is not None:
            states = states.delete(place)
        # Asked again and kept nowhere: `due` is pure, so it says what it said, and cannot disagree with the
        # state.
        old = self._bucket(self._due(place, before))
        if old != new:
            if old is not None:
                left = due[old].discard(place)
                due = due.set(old, left) if len(left) else due.delete(old)
            if new is not None:
                due = due.set(new, due.get(new, Set()).add(place))
        return states, due

    def _bucket(self, time: int | None) -> int | None:
        return None if time is None else -(-time // self.step)  # rounded up: a mark is a whole step (!)

    def _is_due(self, time: int | None, mark: int | None) -> bool:
        return time is not None and mark is not None and -(-time // self.step) * self.step <= mark

    def _passed(self, shard: Shard, mark: int) -> Shard:
        """The mark has come to `mark`: whatever is due by then is called, by time and place."""
        states, due, results = shard.states, shard.due, list[Any]()
        # By the encoding, which is unlike for any two places: places themselves may have no order.
        waiting = [
            (self._due(place, states[place]), encode(place), 0, place)
            for bucket in _between(due, shard.mark, mark, self.step)
            for place in due[bucket]
        ]
        heapify(waiting)
        while waiting:
            time, encoded, calls, place = heappop(waiting)
            assert time is not None, "it is in a bucket"
            before = states[place]
            after, more, time = self.called(place, before, time, calls)
            results += more
            states, due = self._kept(states, due, place, before, after, self._bucket(time))
            if self._is_due(time, mark):
                heappush(waiting, (time, encoded, calls + 1, place))
        return Shard(mark, states, due, tuple(results))

    def _due(self, place: Any, state: Any) -> int | None:
        return None if state is None else self.program.due(place, state)

    def called(self, place: Any, state: Any, time: int, calls: int) -> Told:
        """`on_time`, `calls` having come before it in this place at the same item or mark. A failure is one
        place's: it is told instead of its results, and its state is forgotten, or it would fail for ever."""
        try:
            if calls >= MOST_CALLS:
                raise UserError(
                    f"it was called {MOST_CALLS:,} times at once and asks to be called again: event time may go on "
                    "by years at once, and at the end of all input it passes every time, so let `due` give "
                    "None, or on_time a state of None, when nothing has come for long"
                )
            after, results = self.program.on_time(place, state, time)
            if (again := self._due(place, after)) is not None and again <= time:
                raise UserError(
                    f"it was called at {time} and asks to be called again at {again}: "
                    "a next time is a later one"
                )
            # Here, where the failure is one place's: found in the shard, it would cost all its places the
            # mark (!). As deep as there, where a state is in a map and results are not.
            results = tuple(results)
            check(((after,), results))
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 (whatever user code raises becomes an item)
            name, cause = (
                (name_of(error.function), error.error)
                if type(error) is Raised
                else (self.program.written, error)
            )
            return None, (Failed(name, type(cause).__name__, said(cause)),), None
        return after, results, again


class Even:
    """A balancing function: shards evenly over slots."""

    def __init__(self, shards: int) -> None:
        self._share = (1 << 32) // shards

    def __call__(self, shard: int) -> int:
        return INT32_MIN + shard * self._share


def _between(due: Map[Any, Any], before: int | None, mark: int, step: int) -> Iterator[int]:
    """The steps at or below the mark that have keys. Those up to the mark before are done."""
    last = mark // step
    # The shorter of two ways: a mark may go on by years at once, and the first has none before it.
    if before is None or last - before // step > len(due):
        return (bucket for bucket in due if bucket <= last)
    return (bucket for bucket in range(before // step + 1, last + 1) if bucket in due)


def _results(shard: Shard, _: Any) -> tuple[Any, ...]:
    return shard.results


def on_side(number: int) -> Callable[[Any], Side]:
    """A function that says on which side its items come."""

    def of_side(item: Any) -> Side:
        return Side(number, item)

    return of_side
