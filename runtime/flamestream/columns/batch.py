"""Batch: what a vectorised function made, still as columns: the kernel hands it to the next function, and
reads its buffers itself.

Keeps: a function gets from a batch what it would get from the batch's payloads (`array(takes,
batch.payloads())`), also what stands in slots that are null. Does not: call functions (vectorized.py).
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flamestream.columns.shape import Shape, array, payloads


@dataclass(frozen=True, slots=True)
class Batch:
    """Payloads of one shape, in an array that `conformed` gave, or in one without an offset that was made of
    it."""

    shape: Shape
    values: pa.Array

    def __len__(self) -> int:
        return len(self.values)

    def given_to(self, takes: Shape) -> pa.Array:
        """The payloads as an array of the shape that a function takes."""
        if alike(self.shape, takes) and _settled(self.shape, self.values):
            return self.values
        return array(takes, self.payloads())

    def payloads(self) -> list[Any]:
        """The payloads as Python has them."""
        return payloads(self.shape, self.values)

    def part(self, first: int, count: int) -> "Batch":
        """`count` of the payloads, from `first` on."""
        return Batch(self.shape, cut(self.values, first, count))

    def joined(self, behind: "Batch") -> "Batch":
        """The payloads with others behind them that the same function made."""
        return Batch(self.shape, pa.concat_arrays([self.values, behind.values]))

    def staying(self, stays: pa.BooleanArray) -> "Batch":
        """The payloads at whose places `stays` is true."""
        return Batch(self.shape, self.values.filter(stays))

    def described(self) -> tuple[object, ...]:
        """The batch as the kernel reads it."""
        return described(self.shape, self.values)


def described(shape: Shape, values: pa.Array) -> tuple[object, ...]:
    """An array that `conformed` gave, as native/src/payload/columns.rs reads it."""
    buffers = values.buffers()
    valid = buffers[0] if values.null_count else None
    match shape.kind:
        case "instance":
            assert shape.plan is not None, "an instance has a plan"
            fields = tuple(described(part, values.field(number)) for number, part in enumerate(shape.parts))
            return ("instance", valid, shape.plan.tag, fields)
        case "tuple":
            # `values` and not `flatten()`: the ends count in all elements, also in those that no tuple shows.
            return ("tuple", valid, buffers[1], described(shape.parts[0], values.values))
        case "text" | "bytes":
            return (shape.kind, valid, buffers[1], buffers[2])
    return (shape.kind, valid, buffers[1])


def alike(one: Shape, other: Shape) -> bool:
    """Whether arrays of both shapes look the same, nulls apart: those that are there are looked at."""
    return one.arrow == other.arrow and one.plan is other.plan and all(map(alike, one.parts, other.parts))


def _settled(shape: Shape, values: pa.Array) -> bool:
    """Whether an array has nothing that no payload shows: behind a null instance or tuple, or before and
    behind the elements of tuples."""
    if not shape.parts:
        return True
    if values.null_count:
        return False
    if shape.kind == "tuple":
        ends, elements = values.offsets, values.values
        return (
            ends[0].as_py() == 0 and ends[-1].as_py() == len(elements) and _settled(shape.parts[0], elements)
        )
    return all(_settled(part, values.field(number)) for number, part in enumerate(shape.parts))


def cut(values: pa.Array, first: int, count: int) -> pa.Array:
    """`count` values of an array from `first` on, in buffers that hold no others."""
    # A slice alone keeps all buffers, and an offset in them that the kernel does not look at.
    return values if count == len(values) else pa.concat_arrays([values.slice(first, count)])
