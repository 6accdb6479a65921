"""Windows: what is asked of the windows of a stream, one method an answer.

Does not: fold anything (panes.py, sessions.py, aggregates.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from flamestream.model import fields
from flamestream.model.errors import GraphError
from flamestream.model.event_time import EventTime, TimeOf
from flamestream.model.expressions.expression import Expression, Field
from flamestream.model.ready import Size
from flamestream.model.state_names import Named, part_of
from flamestream.model.stream import Key, Stream
from flamestream.model.vertex import Function, call_site
from flamestream.model.windows import aggregates
from flamestream.model.windows.aggregates import Aggregate
from flamestream.model.windows.panes import Panes, Windowed
from flamestream.model.windows.program import Program
from flamestream.model.windows.ranking import Ranking, bounds
from flamestream.model.windows.sessions import Sessions
from flamestream.model.windows.shapes import Calendar, Session, Shape
from flamestream.model.windows.stream import Results, results_of, time_of

T = TypeVar("T")
K = TypeVar("K")
A = TypeVar("A")
V = TypeVar("V")


class LastOf(TimeOf):
    """fs.Windowed -> the last microsecond of its window, which is its event time."""

    __slots__ = ()

    def __call__(self, item: Any) -> EventTime:
        # By its end it would be in the next of two windows of the same length over it.
        return EventTime(super().__call__(item) - 1)


@dataclass(frozen=True, slots=True)
class Windows(Generic[T, K]):
    """The windows of a stream, of which nothing is made yet.

    Each method gives an `fs.Windowed(key, start, end, value)` for each window of each key that has items,
    when it is final; with `results="each"` at each of its items instead. `.late` of what they give has the
    items that came too late. A value is a field of items by its name, or a function of an item.
    """

    stream: Stream[T]
    shape: Shape
    key: Function
    named: Named = field(default_factory=Named)

    def count(self, *, results: str = "final") -> Results[Windowed[K, int]]:
        """How many items a window has."""
        return self.aggregate(aggregates.counted(), results)

    def total(self, value: Key[T], *, results: str = "final") -> Results[Windowed[K, Any]]:
        """The sum of a value."""
        return self.aggregate(aggregates.total(self._number(value)), results)

    def min(self, value: Key[T], *, results: str = "final") -> Results[Windowed[K, Any]]:
        """The least of a value."""
        return self.aggregate(aggregates.least(self._value(value)), results)

    def max(self, value: Key[T], *, results: str = "final") -> Results[Windowed[K, Any]]:
        """The greatest of a value."""
        return self.aggregate(aggregates.greatest(self._value(value)), results)

    def mean(self, value: Key[T], *, results: str = "final") -> Results[Windowed[K, float]]:
        """The mean of a value."""
        return self.aggregate(aggregates.mean(self._number(value)), results)

    def distinct_count(self, value: Key[T], *, results: str = "final") -> Results[Windowed[K, int]]:
        """How many different values there are."""
        return self.aggregate(aggregates.distinct(self._value(value)), results)

    def collect(self, *, results: str = "final") -> Results[Windowed[K, tuple[T, ...]]]:
        """A tuple of the items, in the order in which they came."""
        return self.aggregate(aggregates.collected(), results)

    @overload
    def top(
        self, count: int, *, by: Size, results: str = "final"
    ) -> Results[Windowed[None, tuple[tuple[K, int], ...]]]: ...
    @overload
    def top(
        self, count: int, *, by: Key[T], results: str = "final"
    ) -> Results[Windowed[K, tuple[T, ...]]]: ...
    def top(self, count: int, *, by: Key[T] | Size, results: str = "final") -> Results[Windowed[Any, Any]]:
        """A tuple of the `count` items with the greatest value, the greatest first, the earlier of equal ones
        before the later.

        `by=fs.size`: the keys with the most items instead. A window's value is then a tuple of (key, number
        of items), equal numbers in the order of keys, and its own key None: it is a window of all of them.
        Raises GraphError.
        """
        ranking = aggregates.top(count, by if isinstance(by, Size) else self._value(by))
        if not isinstance(by, Size):
            return self.aggregate(ranking, results)
        if isinstance(self.shape, Session) or results != "final":
            raise GraphError(
                f"top({count}, by=fs.size) compares keys in the same window, when it is final: "
                "sessions have none in common"
            )
        counts = self.count()
        ranked = Ranking(count, self._written(ranking))
        # No count comes too late for its ranking (ranking.py), so `late` is what came too late to be counted.
        return results_of(
            ranked, (counts, bounds), event_time=counts.event_time, items=Windowed, late=counts,
            named=part_of(self.named, "ranking"),
        )  # fmt: skip

    def _value(self, value: Key[T]) -> Key[T]:
        """The value as it was given. Raises GraphError if items have no such field."""
        fields.key_of(self.stream.items, value, call_site())
        return value

    def _number(self, value: Key[T]) -> Key[T]:
        """The value, which is added. Raises GraphError as well if it is none that can be."""
        if isinstance(of := fields.key_of(self.stream.items, value, call_site()), Expression):
            fields.check_kinds(self.stream.items, 0 + of, call_site())
        return value

    @overload
    def fold(
        self, *, initial: Callable[[], A], combine: Callable[[A, T], A], emit: None = None,
        merge: Callable[[A, A], A] | None = None, results: str = "final",
    ) -> Results[Windowed[K, A]]: ...  # fmt: skip
    @overload
    def fold(
        self, *, initial: Callable[[], A], combine: Callable[[A, T], A], emit: Callable[[A], V],
        merge: Callable[[A, A], A] | None = None, results: str = "final",
    ) -> Results[Windowed[K, V]]: ...  # fmt: skip
    def fold(
        self, *, initial: Callable[[], Any], combine: Callable[[Any, Any], Any],
        emit: Callable[[Any], Any] | None = None, merge: Callable[[Any, Any], Any] | None = None,
        results: str = "final",
    ) -> Results[Windowed[Any, Any]]:  # fmt: skip
        """A window's items folded in the order in which they came: `emit` of `combine(accumulator, item)`
        from `initial()` on.

        `merge`: (accumulator, accumulator) -> the accumulator of two sessions that become one; without it a
        session keeps its items.
        """
        return self.aggregate(Aggregate(initial, combine, emit, merge), results)

    def aggregate(self, aggregate: Aggregate, results: str = "final") -> Results[Windowed[Any, Any]]:
        """Results that `aggregate` makes of each window. Raises GraphError."""
        if results not in ("final", "each"):
            raise GraphError(f'results={results!r} is neither "final" nor "each"')
        written = self._written(aggregate)
        time = time_of(self.stream, written)
        if (
            time.unit
            and not isinstance(self.shape, Calendar)
            and any(size % time.unit for size in self.shape.sizes)
        ):
            raise GraphError(
                f"{written}: its items say their times in units of {time.unit} us, "
                "so no window can begin or end in between"
            )
        program: Program
        if isinstance(self.shape, Session):
            program = Sessions(aggregate, results == "each", written, time, self.shape.gap)
        else:
            program = Panes(aggregate, results == "each", written, time, self.shape)
        return results_of(
            program, (self.stream, self.key), event_time=LastOf(Field("end"), time.unit), items=Windowed,
            named=self.named,
        )  # fmt: skip

    def _written(self, aggregate: Aggregate) -> str:
        return f"window({self.shape.written}).{aggregate.written}"
