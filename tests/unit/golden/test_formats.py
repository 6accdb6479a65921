"""Durable formats: this release reads the files of every version before it, and writes those of its own."""

import importlib
import pkgutil
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream import model
from flamestream.model.payloads.registry import PLANS, name_of_type
from support.golden.format import ROOT, Format, comparable, files_in
from support.golden.payloads import OWN
from support.golden.table import FORMATS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "formats.md"
ROW = re.compile(r"^\| `([a-z-]+)` \|[^|]*\| (\d+) \|", re.MULTILINE)
"""Of the page's table: a format, and how many versions it has."""
VERSIONS = [
    pytest.param(each, version, id=f"{each.name}-{version}")
    for each in FORMATS
    for version in range(1, each.newest + 1)
]


@pytest.mark.parametrize(("each", "version"), VERSIONS)
def test_each_version_is_read_as_what_it_said_when_it_was_written(
    each: Format, version: int, tmp_path: Path
) -> None:
    folder = shutil.copytree(each.folder(version), tmp_path / "golden")
    assert each.comparable(each.read(folder)) == each.comparable(each.values[version - 1])


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_todays_writer_gives_the_newest_version(each: Format) -> None:
    """If a format is to change: docs/reference/formats.md says how a version is added."""
    assert comparable(each.written()) == comparable(files_in(each.folder(each.newest)))


def test_each_format_of_the_page_has_its_files_and_each_file_its_format() -> None:
    named = {name: int(versions) for name, versions in ROW.findall(PAGE.read_text())}
    there = {
        folder.name: len([version for version in folder.iterdir() if files_in(version)])
        for folder in ROOT.iterdir()
    }
    assert named == there == {each.name: each.newest for each in FORMATS}


def is_stored(name: str, cls: type) -> bool:
    """Whether a class is one of the library's, and none of a docstring's example."""
    rooms = "flamestream.model.", "flamestream.core."
    return name.startswith(rooms) and vars(sys.modules[cls.__module__]).get(cls.__qualname__) is cls


def test_each_payload_class_of_our_own_is_in_a_file() -> None:
    """It is stored by its module and name, and a snapshot may have it."""
    for module in pkgutil.walk_packages(model.__path__, "flamestream.model."):
        importlib.import_module(module.name)
    ours = {name for name, cls in ((each.name, each.cls) for each in PLANS.values()) if is_stored(name, cls)}
    assert ours == {name_of_type(type(payload)) for payload in OWN}


def test_a_version_that_is_there_is_never_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.golden.format.ROOT", tmp_path)
    before, after = (
        Format("f", lambda folder, it: (folder / "a").write_bytes(it), Path, (it,)) for it in (b"1", b"2")
    )
    assert (before.make(), before.make()) == ("written", "there")
    with pytest.raises(FileExistsError, match="a value of version 2"):
        after.make()
    assert files_in(before.folder(1)) == {"a": b"1"}


def sections(page: str) -> Iterator[str]:
    """Sections of the page that describe something."""
    return (title for title in re.findall(r"^## (.*)$", page, re.MULTILINE) if title != "Versions")


def test_each_section_of_the_page_has_a_row_or_says_why_it_has_none() -> None:
    page = PAGE.read_text()
    versions = page.partition("## Versions")[2]
    assert [title for title in sections(page) if f"| {title} |" not in versions] == []
