"""The server that the tests of a module share."""

from collections.abc import Iterator

import pytest

from support.postgres import PostgresServer, postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        yield made
