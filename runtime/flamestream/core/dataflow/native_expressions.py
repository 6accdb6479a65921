"""Expressions as the native kernel takes them: nested tuples, which
native/src/payload/expression/description.rs reads.

Keeps: the kernel's value of an expression is Python's, or it has none, and then Python is asked (!). Does
not: evaluate anything.
"""

from typing import Any, Final

from flamestream.model.expressions import conditional, lambdas, operations
from flamestream.model.expressions import expression as nodes
from flamestream.model.payloads.registry import PLANS
from flamestream.model.ready import Append, Count, Record, Size, State, Total
from flamestream.model.tables.ledger import Numbered
from flamestream.model.windows.process import Side

SAID_BY_FIELDS: Final = (nodes.Expression, Append, Count, Total, Record)
"""Classes of functions that name fields instead of having code."""


def described(function: Any) -> tuple[Any, ...] | None:
    """A function as the kernel evaluates it; None if it cannot."""
    match function:
        case Record():
            return _record(function)
        case Numbered(number):
            return "record", PLANS[Side].tag, ("constant", number), ("item",)
    # (!) Only what it computes as Python does: where it has no value, Python is asked for that item.
    found = lambdas.expression_of(function)
    return _node(found) if isinstance(found, nodes.Expression) else None


def _record(record: Record[Any]) -> tuple[Any, ...] | None:
    """Description of a record that an item alone makes; None if it has a part of an accumulator."""
    if any(isinstance(part, Size | State) for part in record.parts):
        return None
    return ("record", PLANS[record.cls].tag, *map(described, record.parts))


def _node(node: nodes.Expression) -> tuple[Any, ...]:
    match node:
        case nodes.Item():
            return ("item",)
        case nodes.Field(name):
            return ("field", name)
        case nodes.Inner(of, name):
            return ("inner", _node(of), name)
        case nodes.Constant(value):
            return ("constant", value)
        case nodes.Element(of, place):
            return ("element", _node(of), place)
        case nodes.Members(members):
            return ("tuple", *map(_node, members))
        case nodes.Unary(sign, of):
            return ("unary", sign, _node(of))
        case nodes.Binary(sign, left, right):
            return ("binary", sign, _node(left), _node(right))
        case nodes.Call():
            function = operations.CALLS[node.kind, node.name]
            return ("call", node.name, _node(node.of), node.kind, function, node.given)
        case conditional.Conditional(cases, other):
            return ("when", [(_node(case), _node(value)) for case, value in cases], _node(other))
    raise AssertionError(f"{type(node).__name__} is no node of an expression")


def why_python(function: Any) -> str | None:
    """Why a function is asked in Python for each item; None: the kernel carries it out."""
    if described(function) is not None:
        return None
    if hasattr(function, "batch"):
        return "it is called with many items at once"
    found = lambdas.expression_of(function)
    assert isinstance(found, lambdas.NoExpression), f"{function} is an expression"
    return found.why
