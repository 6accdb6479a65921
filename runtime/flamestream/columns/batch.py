"""Batch: what a vectorised function made, still as columns: the kernel hands it to the next function, and reads its buffers itself.

Keeps: a function gets from a batch what it would get from the batch's payloads (`array(takes, batch.payloads())`), also what stands in
slots that are null. Does not: call functions (vectorized.py).
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flamestream.columns.shape import Shape, array, payloads


@dataclass(frozen=True, slots=True)
class Batch:
    """Payloads of one shape, in an array that `conformed` gave, or in one without an offset that was made of it."""

    shape: Shape
    values: Any

    def __len__(self) -> int:
        return len(self.values)

    def given_to(self, takes: Shape) -> Any:
        """As an array of what a function takes."""
        if alike(self.shape, takes) and _settled(self.shape, self.values):
            return self.values
        return array(takes, self.payloads())

    def payloads(self) -> list[Any]:
        """As Python has them."""
        return payloads(self.shape, self.values)

    def part(self, first: int, count: int) -> "Batch":
        """Some of them."""
        return Batch(self.shape, cut(self.values, first, count))

    def joined(self, behind: "Batch") -> "Batch":
        """These and others that the same function made."""
        return Batch(self.shape, pa.concat_arrays([self.values, behind.values]))

    def staying(self, stays: Any) -> "Batch":
        """Those where a BooleanArray says so."""
        return Batch(self.shape, self.values.filter(stays))

    def described(self) -> tuple[Any, ...]:
        """For the kernel."""
        return described(self.shape, self.values)


def described(shape: Shape, values: Any) -> tuple[Any, ...]:
    """An array that `conformed` gave, as native/src/payload/columns.rs reads it."""
    buffers = values.buffers()
    valid = buffers[0] if values.null_count else None
    match shape.kind:
        case "instance":
            assert shape.plan is not None, "an instance has a plan"
            fields = tuple(described(part, values.field(number)) for number, part in enumerate(shape.parts))
            return ("instance", valid, shape.plan.tag, fields)
        case "tuple":
            return ("tuple", valid, buffers[1], described(shape.parts[0], values.values))
        case "text" | "bytes":
            return (shape.kind, valid, buffers[1], buffers[2])
    return (shape.kind, valid, buffers[1])


def alike(one: Shape, other: Shape) -> bool:
    """Do arrays of both look the same? Whether there may be nulls is not asked: those that are there are looked at."""
    return one.arrow == other.arrow and one.plan is other.plan and all(map(alike, one.parts, other.parts))


def _settled(shape: Shape, values: Any) -> bool:
    """Is nothing in it that no payload shows: behind the null of an instance or a tuple, or before and behind the elements of tuples?"""
    if not shape.parts:
        return True
    if values.null_count:
        return False
    if shape.kind == "tuple":
        ends, elements = values.offsets, values.values
        return ends[0].as_py() == 0 and ends[-1].as_py() == len(elements) and _settled(shape.parts[0], elements)
    return all(_settled(part, values.field(number)) for number, part in enumerate(shape.parts))


def cut(values: Any, first: int, count: int) -> Any:
    """Some of an array, and nothing of the others."""
    return values if count == len(values) else pa.concat_arrays([values.slice(first, count)])
