"""Mutants: a module with one small break each, such as a boundary moved by one, a condition turned round or
an action left out.

>>> [each.change for each in mutants("a.py", "def f(x):\\n    return max(x, 1)\\n")]
['max( -> min(', '1 -> 2']

Keeps: a mutant always parses, and says in a line what it changes and where. Does not: break annotations,
docstrings, assertions (they are themselves tests), messages, or what a class is declared with
(`frozen=True`). Source: the operators are those of cosmic-ray, and the removal of statements, which it does
not have.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitXor: ast.BitOr,
    ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
CALLED = {"max": "min", "min": "max", "any": "all", "all": "any"}
REMOVED = (ast.Expr, ast.AugAssign, ast.Delete, ast.Continue, ast.Break)
"""Statements that are left out, beside assignments to attributes and items: without a name that others
need."""


Apply = Callable[[ast.AST], None]
Break = tuple[str, Apply]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One break of one module."""

    path: str
    line: int
    change: str
    _whole: ast.Module
    _place: int
    _apply: Apply

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"

    def source(self) -> str:
        """The whole module with it."""
        broken = copy.deepcopy(self._whole)
        self._apply(list(_places(broken))[self._place])
        return ast.unparse(ast.fix_missing_locations(broken))


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """All of a module, in the order of its nodes."""
    whole = ast.parse(source)
    for place, node in enumerate(_places(whole)):
        for change, apply in _breaks(node):
            yield Mutant(path, node.lineno, change, whole, place, apply)


def _places(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Nodes that may be broken, in a fixed order."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params", "msg") or (
            name,
            type(tree),
        ) == ("keywords", ast.ClassDef):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.Assert | ast.JoinedStr | ast.Raise):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield node
            yield from _places(node)


def _breaks(node: ast.expr | ast.stmt) -> Iterator[Break]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            wrong = COMPARED[type(op)]
            yield _told(node, lambda there: there.ops.__setitem__(0, wrong()))  # type: ignore[attr-defined]
        case ast.BinOp(op=op) if type(op) in COMPUTED and not _is_text(node):
            wrong_operator = COMPUTED[type(op)]
            yield _told(node, lambda there: setattr(there, "op", wrong_operator()))
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield _told(node, lambda there: setattr(there, "op", other))
        case ast.UnaryOp(op=ast.Not()):
            yield f"{_short(node)} -> its opposite", _negate_operand
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", lambda there: setattr(there, "value", not value)
        case ast.Constant(value=int(value)):
            yield f"{value} -> {value + 1}", lambda there: setattr(there, "value", value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            yield f"{name}( -> {CALLED[name]}(", lambda there: setattr(there.func, "id", CALLED[name])  # type: ignore[attr-defined]
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(
            test, ast.Compare | ast.BoolOp | ast.UnaryOp
        ):
            yield (
                f"if {ast.unparse(test)} -> if not",
                lambda there: setattr(there, "test", ast.UnaryOp(ast.Not(), test)),
            )
        case ast.stmt() if _is_removable(node):
            yield f"without {_short(node)}", _become_pass


def _told(node: ast.AST, apply: Apply) -> Break:
    broken = copy.deepcopy(node)
    apply(broken)
    return f"{_short(node)} -> {_short(broken)}", apply


def _negate_operand(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _is_removable(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)  # not a docstring
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, REMOVED)


def _become_pass(node: ast.AST) -> None:
    """In its place: its parent may have nothing else."""
    node.__class__ = ast.Expr
    for name in list(vars(node)):
        if name not in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            delattr(node, name)
    node.value = ast.Constant(...)  # type: ignore[attr-defined]


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.List) or isinstance(getattr(side, "value", 0), str)
        for side in (node.left, node.right)
    )


def _short(node: ast.AST) -> str:
    line = " ".join(ast.unparse(node).split())
    return line if len(line) <= 80 else f"{line[:77]}..."
