"""A target: one of our readers of bytes, and what must hold whatever they are.

>>> def number(data: bytes) -> int | None:
...     return attempt(int, data, ValueError)
>>> Target("number", number, seeds=lambda: [b"17"]).check(b"x") is None
True

A check ends in silence or raises: an error that the reader may not raise goes through as it is, a promise
that is not kept is an AssertionError. Time and memory are bounded by the runner (run.py).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """`seeds` are valid inputs to begin with, made by the product itself, so that they follow its formats."""

    name: str
    check: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    runs: int = 8000
    """In CI."""
    largest: int = 1024
    """Bytes of an input."""


def attempt(read: Callable[[bytes], T], data: bytes, *refusals: type[Exception]) -> T | None:
    """What is read; None if it is refused by one of `refusals`. Everything else is raised."""
    try:
        return read(data)
    except refusals:
        return None


def pieces(data: bytes) -> Iterator[bytes]:
    """Bytes as a list of byte strings: a length, then so many bytes, to the end."""
    while data:
        yield data[1 : 1 + data[0]]
        data = data[1 + data[0] :]


def joined(parts: Iterable[bytes]) -> bytes:
    """The way back, of parts of at most 255 bytes.

    >>> list(pieces(joined([b"ab", b"", b"c"])))
    [b'ab', b'', b'c']
    """
    return b"".join(bytes([len(part)]) + part for part in parts)
