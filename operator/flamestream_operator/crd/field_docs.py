"""The text under each field of a struct: what `kubectl explain` shows.

>>> from flamestream.job.manifest import Checkpoint
>>> docs_of(Checkpoint)["interval"]
'Time between two epochs, like 50ms, 1s, 2m. Results never wait for it.'

Keeps: a field without a text is an error. Does not: know schemas (schema.py).
"""

import ast
import inspect
import textwrap
from functools import cache

import msgspec


@cache
def docs_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Text of each field of `struct`, by the field's name in Python; inherited ones too."""
    found: dict[str, str] = {}
    for part in reversed(struct.__mro__):
        if issubclass(part, msgspec.Struct) and part is not msgspec.Struct:
            found.update(_written(part))
    missing = [name for name in struct.__struct_fields__ if name not in found]
    if missing:
        raise LookupError(
            f"{struct.__module__}.{struct.__name__}: no text under {', '.join(missing)}: "
            "`kubectl explain` needs one"
        )
    return found


def _written(struct: type[msgspec.Struct]) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    assert isinstance(body, ast.ClassDef), f"{struct} is a class"
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            value = text.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[field.target.id] = " ".join(value.value.split())
    return found
