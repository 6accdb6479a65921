"""Seeds of a simulated job: some at every push, the others in `make test-long`."""

from typing import Any

import pytest


def chunks(first: int, last: int, size: int, *, at_push: int) -> list[Any]:
    """Where runs of `size` seeds begin, from `first` to before `last`; those behind the first `at_push` seeds
    are slow."""
    return [
        pytest.param(start, marks=pytest.mark.slow if start >= first + at_push else ())
        for start in range(first, last, size)
    ]
