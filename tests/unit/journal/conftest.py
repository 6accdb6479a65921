"""What the journal's tests share: a reactor, and a topic's attempts."""

from collections.abc import Iterator

import pytest

from flamestream.loop.reactor import EpollReactor
from support.journals.topic import Attempts
from support.loops import reactor


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        made._helpers._limit = 1  # so that `trim` can see when a helper is done
        yield made


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()
