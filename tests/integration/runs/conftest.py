"""The folder in which a test types commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.runs.scratch import Scratch


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    made = Scratch(tmp_path)
    yield made
    made.close()
