"""What the image for Kubernetes has: a job's pods cannot install what a connector needs."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXTRAS = ("http", "postgres", "redis", "kafka", "operator")


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_image_has_the_packages_of_each_connector(extra: str) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    names = {re.split(r"[\[<>=]", package)[0] for package in wanted}
    pinned = set(
        re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE)
    )
    assert names <= pinned
