"""Shape: what Arrow type the payloads of a Python type have, and the way between both.

    str  string     int  int64     float  double     bool  bool     bytes  binary     tuple[T, ...]  list of T
    a payload class  struct of its fields, by their annotations     T | None  the same, and may be null

Types come from annotations, never from values: an array must not look different because of what else is in
it.

Keeps: `payloads(shape, array(shape, payloads)) == payloads`. Does not: guess; an annotation that says less
than one of these types is refused.
"""

import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flamestream.model.errors import GraphError
from flamestream.model.payloads.encoding import WORD
from flamestream.model.payloads.registry import PLANS, Plan

SCALARS: dict[type, tuple[str, pa.DataType]] = {
    str: ("text", pa.string()),
    int: ("int", pa.int64()),
    float: ("float", pa.float64()),
    bool: ("bool", pa.bool_()),
    bytes: ("bytes", pa.binary()),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The form that payloads of one type have in an array."""

    kind: str
    """The kind, by the name that native/src/payload/columns.rs has for it."""
    arrow: pa.DataType
    nullable: bool = False
    parts: tuple["Shape", ...] = ()
    """The shapes inside: a tuple's element, an instance's fields."""
    plan: Plan | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of an instance's fields."""
        assert self.plan is not None and self.plan.labels is not None, "an instance has a plan with labels"
        return self.plan.labels


def shape_of(kind: Any, where: str) -> Shape:
    """The shape of an annotation. `where` is what messages call it. Raises GraphError if it has none."""
    if kind in SCALARS:
        return Shape(*SCALARS[kind])
    arguments = typing.get_args(kind)
    if (
        typing.get_origin(kind) in (typing.Union, types.UnionType)
        and len(arguments) == 2
        and type(None) in arguments
    ):
        inner = shape_of(next(one for one in arguments if one is not type(None)), where)
        return Shape(inner.kind, inner.arrow, True, inner.parts, inner.plan)
    if typing.get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        element = shape_of(arguments[0], f"{where}[...]")
        return Shape("tuple", pa.list_(element.arrow), parts=(element,))
    plan = PLANS.get(kind) if isinstance(kind, type) else None
    if plan is None or plan.labels is None:
        raise GraphError(
            f"{where} is {kind!r}, which has no Arrow type: use str, int, float, bool, bytes, tuple[T, "
            "...], T | None or a class with @fs.payload_type whose fields are annotated with these"
        )
    hints = typing.get_type_hints(kind)
    parts = tuple(shape_of(hints[label], f"{where}.{label}") for label in plan.labels)
    return Shape(
        "instance",
        pa.struct([pa.field(name, part.arrow) for name, part in zip(plan.labels, parts, strict=True)]),
        parts=parts,
        plan=plan,
    )


def array(shape: Shape, payloads: Sequence[Any]) -> pa.Array:
    """The payloads as an Arrow array. Raises pyarrow's errors, or AttributeError, for what is not of the
    shape."""
    if shape.kind == "tuple":
        ends = list(accumulate((len(payload or ()) for payload in payloads), initial=0))
        elements = array(shape.parts[0], [element for payload in payloads for element in payload or ()])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements, mask=_missing(payloads))
    if shape.kind != "instance":
        return pa.array(payloads, shape.arrow)
    members = [
        [None if payload is None else getattr(payload, label) for payload in payloads]
        for label in shape.labels
    ]
    columns = [array(part, values) for part, values in zip(shape.parts, members, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(shape.arrow), mask=_missing(payloads))


def most_bytes(shape: Shape, values: pa.Array) -> int:
    """A bound that the `payload.checked_size` of no payload of an array that `conformed` gave exceeds."""
    match shape.kind:
        case "instance":
            return WORD + sum(
                most_bytes(part, values.field(number)) for number, part in enumerate(shape.parts)
            )
        case "tuple":
            return WORD + (pc.max(pc.list_value_length(values)).as_py() or 0) * most_bytes(
                shape.parts[0], values.values
            )
        case "text" | "bytes":
            return max(WORD, pc.max(pc.binary_length(values)).as_py() or 0)
    return WORD


def _missing(payloads: Sequence[Any]) -> pa.BooleanArray | None:
    """The places of None; None if there is none. Asked also where the type has no None: in what is itself
    missing there is nothing."""
    missing = [payload is None for payload in payloads]
    return pa.array(missing, pa.bool_()) if any(missing) else None


def payloads(shape: Shape, values: pa.Array) -> list[Any]:
    """The payloads of an array that `conformed` gave."""
    if shape.kind == "instance":
        assert shape.plan is not None and shape.plan.build is not None, "an instance has a plan that builds"
        build = shape.plan.build
        columns = [payloads(part, values.field(number)) for number, part in enumerate(shape.parts)]
        # zip of no columns gives no rows, and a class may have no fields
        made = (
            [build(list(members)) for members in zip(*columns, strict=True)]
            if columns
            else [build([]) for _ in range(len(values))]
        )
    elif shape.kind == "tuple":
        ends, elements = values.offsets.to_pylist(), payloads(shape.parts[0], values.values)
        made = [tuple(elements[ends[place] : ends[place + 1]]) for place in range(len(values))]
    else:
        return list(values.to_pylist())
    return (
        made
        if values.null_count == 0
        else [one if valid else None for one, valid in zip(made, values.is_valid().to_pylist(), strict=True)]
    )


def conformed(shape: Shape, values: Any, where: str, within: pa.Array | None = None) -> pa.Array:
    """An array of exactly the shape's types, without an offset. Raises TypeError or ValueError that says
    where it differs.

    `within`: the instances whose field it is; in one that is missing nothing is looked for."""
    if not isinstance(values, pa.Array):
        raise TypeError(
            f"{where} is a {type(values).__name__}: an Arrow array of {shape.arrow} must be returned"
        )
    if not shape.nullable and (nulls := _nulls(values, within)):
        raise ValueError(f"{where} has {nulls} nulls, but its type has no None: fill them, or say `| None`")
    # the kernel reads buffers from their beginning (!)
    values = pa.concat_arrays([values]) if values.offset else values
    if shape.kind == "instance":
        return _conformed_instance(shape, values, where)
    if shape.kind == "tuple":
        return _conformed_list(shape, values, where)
    if values.type == shape.arrow:
        return values
    try:
        # a safe one: numbers that do not fit, or would lose digits, raise
        return values.cast(shape.arrow)
    except pa.ArrowException as error:
        raise TypeError(f"{where} is {values.type}, which is not {shape.arrow}: {error}") from error


def _nulls(values: pa.Array, within: pa.Array | None) -> int:
    if not values.null_count or within is None or not within.null_count:
        return int(values.null_count)
    return int(pc.sum(pc.and_(values.is_null(), within.is_valid())).as_py())


def _conformed_instance(shape: Shape, values: pa.Array, where: str) -> pa.Array:
    names = [one.name for one in values.type] if pa.types.is_struct(values.type) else []
    # in whatever order: fields are taken by name
    if sorted(names) != sorted(shape.labels):
        raise TypeError(
            f"{where} is {values.type}; it must be a struct with the fields {', '.join(shape.labels)}"
        )
    fields = zip(shape.labels, shape.parts, strict=True)
    columns = [conformed(part, values.field(label), f"{where}.{label}", values) for label, part in fields]
    missing = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(shape.arrow), mask=missing)


def _conformed_list(shape: Shape, values: pa.Array, where: str) -> pa.Array:
    if pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    if not pa.types.is_list(values.type):
        raise TypeError(f"{where} is {values.type}; it must be a list of {shape.parts[0].arrow}")
    ends, elements = values.offsets, values.values
    if values.null_count or ends[0].as_py() != 0 or ends[-1].as_py() != len(elements):
        # Before `flatten`, which believes all offsets and ends the process if one is wrong (!).
        values.validate(full=True)
        # Without the elements that no list shows, in a slice or behind a null: they may be anything.
        elements, lengths = values.flatten(), pc.fill_null(pc.list_value_length(values), 0)
        ends = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), lengths]))
    elements = conformed(shape.parts[0], elements, f"{where}[...]")
    return pa.ListArray.from_arrays(ends, elements, mask=values.is_null() if values.null_count else None)
