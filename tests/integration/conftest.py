"""Servers that several modules share, and a loop to drive an adapter by hand."""

from collections.abc import Iterator

import pytest

from flamestream.testing.port_driver import PortDriver
from support.kafka_broker import broker as broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The page's first: one of its files takes longest, and behind all others it would keep one processor alone."""
    items.sort(key=lambda item: "integration/ui/" not in item.nodeid)


@pytest.fixture
def driver() -> Iterator[PortDriver]:
    with PortDriver() as made:
        yield made
