"""Kafka's clients of one module of tests do not live on in the next."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def clients_end() -> Iterator[None]:
    """A journal lives as long as its process, so tests do not close theirs; each client has a dozen files
    open."""
    yield
    gc.collect()
