"""Errors from tasks: what our own code raised in a Spark task comes out of Spark as a Java exception with the
Python text in it.

Keeps: an error of ours has its class and message again. Does not: hide others: they come out as they are,
with Spark's reason.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError

from flamestream.model import errors

_RAISED: Final = re.compile(r"^flamestream\.model\.errors\.(\w+): (.*)", re.MULTILINE)


@contextmanager
def raised_in_tasks() -> Iterator[None]:
    """Around a Spark action: raises FlameStreamError for what failed the job."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise _ours(error) from None


def _ours(error: Exception) -> errors.FlameStreamError:
    text = _text(error)
    found = _RAISED.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, errors.Bug)
        made: errors.FlameStreamError = kind(message)
        return made
    return errors.Retryable(f"Spark gave up: {_first_lines(text)}")


def _text(error: Any) -> str:
    origin = getattr(error, "_origin", None) or (
        error.java_exception if isinstance(error, Py4JJavaError) else None
    )
    return str(origin.toString()) if origin is not None else str(error)


def _first_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[:3])[:2000]
