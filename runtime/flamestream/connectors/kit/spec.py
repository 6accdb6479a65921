"""Specs of sources and sinks: from a manifest's plain values to typed structs, with the exact place of every
error.

>>> class Nap(msgspec.Struct, forbid_unknown_fields=True):
...     seconds: int
>>> one_of({"nap": {"seconds": 3}}, {"nap": Nap}, "spec.sources.bed")
Nap(seconds=3)
>>> one_of({"nap": {"seconds": "x"}}, {"nap": Nap}, "spec.sources.bed")
Traceback (most recent call last):
flamestream.model.errors.ManifestError: spec.sources.bed.nap.seconds: Expected `int`, got `str`

Keeps: unknown fields are errors. Does not: know any kind of source or sink (connectors/installed.py).
"""

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from flamestream.model.errors import ManifestError, UserError

S = TypeVar("S", bound=msgspec.Struct)

MAX_RUN_LENGTH: Final = 64
"""Records of a run of a timed source that gives many at once."""
_PLACE: Final = re.compile(r"\A(.*?)(?: - at `\$(.*)`)?\Z", re.DOTALL)


def convert(kind: type[S], fields: object, where: str) -> S:
    """`fields` as a `kind`. Raises ManifestError that begins with the field's place below `where`."""
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        # msgspec says the place nowhere but in its text.
        what, path = _PLACE.findall(str(error))[0]
        known = (
            f" (its fields: {', '.join(kind.__struct_encode_fields__)})" if "unknown field" in what else ""
        )
        raise ManifestError(f"{where}{path}: {what}{known}") from None


def one_of(spec: object, kinds: Mapping[str, type[S]], where: str) -> S:
    """`spec` is a mapping with one key, which names its kind."""
    names = ", ".join(kinds)
    if not isinstance(spec, Mapping):
        raise ManifestError(f"{where}: expected a mapping with one of {names}, got {type(spec).__name__}")
    for name in spec:
        if name not in kinds:
            raise ManifestError(f"{where}.{name}: there is no such kind; choose one of {names}")
    if len(spec) != 1:
        raise ManifestError(
            f"{where}: expected exactly one of {names}, got {', '.join(map(str, spec)) or 'none'}"
        )
    ((name, fields),) = spec.items()
    return convert(kinds[name], {} if fields is None else fields, f"{where}.{name}")


def address_of(text: str) -> tuple[str, int]:
    """host and port of `host:port` or `[v6]:port`. Raises ValueError, which `convert` turns into a
    ManifestError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"an address is host:port, not {text!r}")
    return host, int(port)


def function_of(text: str, where: str) -> Callable[..., Any]:
    """The function that `module:name` names."""
    module, colon, name = text.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ManifestError(
            f"{where}: cannot import {text!r} ({error}); write it as module:function"
        ) from error
    if not colon or not callable(found):
        raise ManifestError(f"{where}: {text!r} is not a function; write it as module:function")
    return found  # type: ignore[no-any-return]  # callable, and that is all that is known


def need(package: str, extra: str) -> None:
    """Raises ValueError unless `package` is installed."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"this needs the package {package}: pip install 'flamestream[{extra}]'")


def secret_of(file: str, where: str) -> str:
    """The content of a file with a secret, without white space around it. Raises UserError."""
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: cannot read {file}: {error}") from None
    if not found:
        raise UserError(f"{where}: {file} is empty")
    return found
