"""`fs.vectorized`: makes a function over Arrow arrays one that a graph takes.

Keeps: a batch's results are those of each payload alone; what is not of the types that were said is an error
of the function, which says where it differs. Does not: run on a cluster or keep state; that is the worker's.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flamestream.columns.batch import Batch, cut
from flamestream.columns.shape import Shape, array, conformed, most_bytes, payloads, shape_of
from flamestream.model.errors import GraphError, UserError, too_big_results, too_many_results
from flamestream.model.payload import checked_size, encode
from flamestream.model.vertex import MAX_RESULT_BYTES, MAX_RESULTS, Kind, name_of

OverArrays = Callable[[pa.Array], pa.Array]


class DependsOnBatch(UserError):
    """Results that each alone would not have: nobody knows which of them are right."""

    of_all = True
    """Tells the kernel that no item alone is at fault."""


def vectorized(*, takes: object, makes: object) -> Callable[[OverArrays], "Vectorized"]:
    """A decorator. `takes` and `makes` are the types of payloads before and behind the function: str, int,
    float, bool, bytes, tuple[T, ...], T | None, or a class with @fs.payload_type whose fields are annotated
    with these.

    In `map` the function returns an array as long as the one it gets; in `flat_map`, a ListArray as long; in
    `filter` (makes=bool), a BooleanArray as long. Called by hand it is the function over arrays. Raises
    GraphError if a type has no Arrow type.
    """

    def decorate(function: OverArrays) -> Vectorized:
        name = function.__qualname__
        return Vectorized(
            function, shape_of(takes, f"what {name} takes"), shape_of(makes, f"what {name} makes")
        )

    return decorate


class Vectorized:
    """A function over Arrow arrays, with the types of its payloads."""

    def __init__(self, function: OverArrays, takes: Shape, makes: Shape) -> None:
        functools.update_wrapper(self, function)
        self._function, self._takes, self._makes = function, takes, makes

    def __call__(self, values: pa.Array) -> pa.Array:
        return self._function(values)

    def for_kind(
        self, kind: Kind, max_results: int = MAX_RESULTS, max_result_bytes: int = MAX_RESULT_BYTES
    ) -> "ForVertex":
        """The function that a vertex of `kind` calls, in a graph with these limits."""
        if kind is Kind.FILTER and self._makes.kind != "bool":
            raise GraphError(
                f"filter({self._function.__qualname__}): say makes=bool, "
                "since it answers whether an item stays"
            )
        return ForVertex(self._function, self._takes, self._makes, kind, (max_results, max_result_bytes))


@dataclass(frozen=True)
class _Results:
    """The results of a function for some payloads, of the types that were said."""

    ends: pa.Int32Array | None
    """flat_map: where the results of each payload end; None: each has one."""
    values: pa.Array


class ForVertex:
    """payload -> its result, or for a flat_map its results."""

    def __init__(
        self, function: OverArrays, takes: Shape, makes: Shape, kind: Kind, limits: tuple[int, int]
    ) -> None:
        functools.update_wrapper(self, function)
        self._function, self._takes, self._makes, self._kind = function, takes, makes, kind
        self._max_results, self._max_result_bytes = limits
        self.makes_class: type | None = None if makes.plan is None or kind is Kind.FILTER else makes.plan.cls
        """The class of its results, where they are instances of one."""
        array(takes, [])  # pyarrow imports what it needs now, not in the middle of the first record

    def __call__(self, payload: Any) -> Any:
        return self.together([payload])[0]

    def together(self, items: Sequence[Any] | Batch) -> list[Any]:
        """The results of one call for several payloads: for each what `self(payload)` gives."""
        return self._each(self._results(items))

    def batch(self, items: Sequence[Any] | Batch) -> tuple[pa.Buffer | None, Batch | None]:
        """The kernel's call: (where the results of each item end, or None if each has one; the results).

        A filter's results are the items that stay; None if they are given as payloads, which the kernel
        has."""
        return self._answer(items, self._results(items))

    def checked_batch(self, items: Sequence[Any] | Batch) -> tuple[pa.Buffer | None, Batch | None]:
        """The kernel's call in debug mode: `batch`, which asks about each payload alone too, and compares."""
        results = self._results(items)
        given = items.payloads() if isinstance(items, Batch) else items
        for alone, together in zip(map(self, given), self._each(results), strict=True):
            if encode(_one(alone)) != encode(_one(together)):
                cause = (
                    "results may not depend on what else is in a batch, nor on clock, "
                    "randomness or outside state"
                )
                raise DependsOnBatch(
                    f"{name_of(self)} made other results of several items than of each alone: {cause}"
                )
        return self._answer(items, results)

    def _each(self, results: _Results) -> list[Any]:
        made = payloads(self._makes, results.values)
        if results.ends is None:
            return made
        return [made[start:end] for start, end in pairwise(results.ends.to_pylist())]

    def _answer(
        self, items: Sequence[Any] | Batch, results: _Results
    ) -> tuple[pa.Buffer | None, Batch | None]:
        if self._kind is Kind.FILTER:
            # as `bool(None)` does where each is asked alone (!)
            stays = results.values.fill_null(False)
            ends = pc.cumulative_sum(pa.concat_arrays([_NONE, stays.cast(pa.int32())]))
            return ends.buffers()[1], items.staying(stays) if isinstance(items, Batch) else None
        if results.ends is None:
            return None, Batch(self._makes, results.values)
        first, last = results.ends[0].as_py(), results.ends[-1].as_py()
        return results.ends.buffers()[1], Batch(self._makes, cut(results.values, first, last - first))

    def _results(self, items: Sequence[Any] | Batch) -> _Results:
        given = items.given_to(self._takes) if isinstance(items, Batch) else array(self._takes, items)
        if given.null_count and not self._takes.nullable:
            raise TypeError(
                f"{self._function.__qualname__} got None: say takes=... | None, or filter before it"
            )
        made = self._function(given)
        where = f"what {self._function.__qualname__} makes"
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        if not isinstance(made, pa.Array) or len(made) != len(items):
            what = f"{len(made)} results" if isinstance(made, pa.Array) else f"a {type(made).__name__}"
            raise ValueError(
                f"{where} for {len(items)} items is {what}: it must be an Arrow array with one entry an item"
            )
        if self._kind is not Kind.FLAT_MAP:
            results = _Results(None, _validated(conformed(self._makes, made, where)))
            return results if self._kind is Kind.FILTER else self._within_limits(results)
        lists = conformed(Shape("tuple", pa.list_(self._makes.arrow), parts=(self._makes,)), made, where)
        _validated(lists)
        return self._within_limits(_Results(lists.offsets, lists.values))

    def _within_limits(self, results: _Results) -> _Results:
        """The results. Raises ResultLimit if one item has too many or too big ones; each alone is looked at
        only where that may be."""
        ends = results.ends
        most = 1 if ends is None else pc.max(pc.subtract(ends[1:], ends[:-1])).as_py() or 0
        if most > self._max_results:
            raise too_many_results(self._max_results)
        # a bound first: looking at each costs an object
        if most * most_bytes(self._makes, results.values) > self._max_result_bytes:
            for made in self._each(results):
                if sum(map(checked_size, [made] if ends is None else made)) > self._max_result_bytes:
                    raise too_big_results(self._max_result_bytes)
        return results


_NONE = pa.array([0], pa.int32())


def _one(made: Any) -> Any:
    """The result of one item in a form that can be encoded."""
    return tuple(made) if isinstance(made, list) else made


def _validated(values: pa.Array) -> pa.Array:
    values.validate(full=True)  # the kernel reads its buffers: lengths, ends and UTF-8 must be right
    return values
