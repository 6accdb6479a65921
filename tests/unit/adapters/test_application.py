"""What an application is: the digest of its files."""

import os
from pathlib import Path

import pytest

from flamestream.adapters.application import digest_of


def files(folder: Path, **contents: str) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content)
    return {name: folder / name for name in contents}


def test_equal_files_in_other_places_have_the_same_digest(tmp_path: Path) -> None:
    here, there = files(tmp_path / "a", job="1", lib="2"), files(tmp_path / "b", lib="2", job="1")
    os.utime(there["job"], (0, 0))
    there["job"].chmod(0o400)
    assert digest_of(here) == digest_of(there)


@pytest.mark.parametrize(
    "other", [{"job": "1"}, {"job": "1", "lib": "3"}, {"job": "1", "lob": "2"}, {"job": "2", "lib": "1"}, {"job": "12", "lib": ""}]
)
def test_another_name_or_content_is_another_digest(tmp_path: Path, other: dict[str, str]) -> None:
    assert digest_of(files(tmp_path / "a", job="1", lib="2")) != digest_of(files(tmp_path / "b", **other))
