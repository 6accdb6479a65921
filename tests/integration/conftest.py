"""Servers that several modules share, and a loop to drive an adapter by hand."""

from collections.abc import Iterator

import pytest

from flamestream.testing.port_driver import PortDriver
from support.kafka_broker import broker as broker


@pytest.fixture
def driver() -> Iterator[PortDriver]:
    with PortDriver() as made:
        yield made
