"""History file: what was seen of any stream system, JSON lines in the order of seeing.

    {"in": "orders", "value": {"user": "ann", "cents": 5}, "partition": 0}
    {"out": "totals", "value": ["ann", 5], "key": "ann"}
    {"crash": "task manager 2"}
    {"recover": "checkpoint 7"}
    {"end": true}

Keeps: whatever is wrong is told with its line. Does not: know a job (judged_history.py).
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from flamestream.audit.definitions.history import Crashed, Recovered
from flamestream.model.collections import Map
from flamestream.model.decoding import DecodeError, json_decoder, json_lines_decoder
from flamestream.model.errors import UserError
from flamestream.model.payloads.plain import plain

ABSENT: Final = msgspec.Raw(b"")
KINDS: Final = ("in", "out", "crash", "recover", "end")


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line as it is written. One of the first five fields is there."""

    came_in: str | None = msgspec.field(name="in", default=None)
    """A source of the job that a record entered through."""
    came_out: str | None = msgspec.field(name="out", default=None)
    """A sink of the job that a result came out at."""
    crash: str | None = None
    recover: str | None = None
    end: bool = False
    """Everything that had to come out has; the last line."""
    value: msgspec.Raw = ABSENT
    partition: str | int | None = None
    """A record's partition: records of one keep their order. None: the source has only one."""
    key: msgspec.Raw = ABSENT
    """A result's key, as the sink's key function gives it."""

    @property
    def has_key(self) -> bool:
        """Whether it says one."""
        return self.key != ABSENT


Placed: TypeAlias = tuple[int, Line]
TOGETHER: Final = 1 << 18
"""Bytes of lines that are read together: decoded one by one a line takes twice as long."""
_decode: Final[Callable[[bytes], Line]] = json_decoder(Line)
_decode_lines: Final = json_lines_decoder(Line)


def lines(path: Path) -> Iterator[Placed]:
    """Each line, with its number from 1. Raises UserError."""
    ended = 0
    for first, texts in _pieces(path):
        for number, line in _together(path, first, texts):
            if ended:
                raise wrong(path, number, f"line {ended} says that everything had come out by then")
            ended = number if line.end else 0
            yield number, line


def first_results(path: Path, sinks: Collection[str]) -> dict[str, Placed]:
    """The first result of each of these sinks, and its line. It is looked for before what stands there is
    read: whether a sink's results have keys has to be known for the first record."""
    found: dict[str, Placed] = {}
    for first, texts in _pieces(path):
        for number, text in enumerate(texts, first):
            if len(found) == len(sinks):
                return found
            if b'"out"' in text:
                line = _checked(path, number, text)
                if line.came_out in sinks:
                    found.setdefault(str(line.came_out), (number, line))
    return found


def wrong(path: Path, number: int, text: str) -> UserError:
    """The error of a line."""
    return UserError(f"{path}:{number}: {text}")


def failure_of(number: int, line: Line) -> Crashed | Recovered | None:
    """The failure or recovery that a line tells."""
    if line.crash is not None:
        return Crashed(number)
    return None if line.recover is None else Recovered(number)


def canonical(value: Any) -> str:
    """A value as JSON, the same for equal ones: fields sorted, without spaces. fs.Map with texts as keys is
    an object, as other systems write one.

    >>> canonical((1, Map({"b": 1, "a": None})))
    '[1,{"a":null,"b":1}]'
    """
    return _encoder.encode(value).decode()


def canonical_text(raw: msgspec.Raw) -> str:
    """JSON that somebody wrote, in the form that `canonical` gives. Raises DecodeError."""
    return canonical(_any(bytes(raw)))


@lru_cache(1 << 16)
def canonical_key(text: bytes) -> str:
    """The same of a key, which comes again and again."""
    return canonical(_any(text))


def _as_object(value: Any) -> Any:
    if isinstance(value, Map) and all(type(name) is str for name in value):
        return dict(value.items())
    return plain(value)


_any: Final = json_decoder()
_encoder: Final = msgspec.json.Encoder(enc_hook=_as_object, order="sorted")


def _pieces(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """All lines, some at a time, with the number of the first."""
    first = 1
    try:
        with path.open("rb") as file:
            while texts := file.readlines(TOGETHER):
                yield first, texts
                first += len(texts)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; --history wants a file of JSON lines"
        ) from error


def _together(path: Path, first: int, texts: list[bytes]) -> Iterator[Placed]:
    """The lines that are not empty. Only if something is not as it should be they are looked at one by
    one."""
    text, found = b"".join(texts), list[Line]()
    # The decoder minds no ends of lines: it may take two that are on one, or one that is on two.
    if text.startswith(b"{") and text.count(b"}\n{") == len(texts) - 1:
        with suppress(DecodeError):
            found = _decode_lines(text)
    if len(found) == len(texts) and all(map(_says_one_thing, found)):
        return enumerate(found, first)
    return (
        (number, _checked(path, number, line)) for number, line in enumerate(texts, first) if line.strip()
    )


def _checked(path: Path, number: int, text: bytes) -> Line:
    try:
        line = _decode(text)
    except DecodeError as error:
        raise wrong(path, number, f'{error}; a line is JSON like {{"in": "SOURCE", "value": ...}}') from error
    if problem := _problem(line):
        raise wrong(path, number, problem)
    return line


def _says_one_thing(line: Line) -> bool:
    """Whether it is a record or a result without a problem, as most lines are."""
    if line.end or line.crash is not None or line.recover is not None or not line.value:
        return False
    if line.came_in is None:
        return line.came_out is not None and line.partition is None
    return line.came_out is None and not line.key


def _problem(line: Line) -> str:
    """Why a line says nothing; "": it does."""
    there = (line.came_in, line.came_out, line.crash, line.recover, line.end or None)
    if there.count(None) != len(there) - 1:
        kinds = [kind for kind, value in zip(KINDS, there, strict=True) if value is not None]
        return f"a line has one of {', '.join(KINDS)}; this has {' and '.join(kinds) or 'none'}"
    came, went = line.came_in is not None, line.came_out is not None
    kind = KINDS[next(number for number, value in enumerate(there) if value is not None)]
    if (came or went) and not line.value:
        return f"{kind!r} wants a value"
    says_nothing = {
        "value": bool(line.value) and not (came or went),
        "partition": line.partition is not None and not came,
        "key": line.has_key and not went,
    }
    extra = next((name for name, value in says_nothing.items() if value), "")
    return extra and f"{extra!r} says nothing beside {kind!r}: leave it out"
