"""Applications of one process whose files have one name: each is its own, or is refused."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.job import namesakes
from flamestream.job.application import load
from flamestream.model.errors import ManifestError, UserError
from flamestream.model.payloads.codec import decode, encode

APPLICATION = """\
import flamestream as fs
import enum, {beside}

@fs.payload_type
class {cls}(enum.Enum):
    A = {beside}.VALUE

graph = fs.Graph("{cls}")
graph.source("in").sink("out")
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    monkeypatch.setattr(namesakes, "_LOADED", {})
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(folder: Path, cls: str, beside: str, value: int = 1) -> Path:
    folder.mkdir()
    (folder / f"{beside}.py").write_text(f"VALUE = {value}\n")
    file = folder / "namesake_app.py"
    file.write_text(APPLICATION.format(cls=cls, beside=beside))
    return file


def test_two_of_one_name_are_both_there_and_classes_are_called_as_in_their_own_jobs(tmp_path: Path) -> None:
    first = written(tmp_path / "a", "Colour", "namesake_colours")
    second = written(tmp_path / "b", "Shape", "namesake_shapes", 2)
    graphs = [load(first, "graph"), load(second, "graph")]
    assert [graph.name for graph in graphs] == ["Colour", "Shape"]
    assert (load(first, "graph"), load(second, "graph")) == tuple(graphs), "a file is executed once"
    there = namesakes._LOADED
    for file, cls, value in ((first, "Colour", 1), (second, "Shape", 2)):
        member = getattr(there[file], cls).A
        assert (decode(encode(member)), member.value) == (member, value)
        assert type(member).__module__ == "namesake_app", "its tag is made of this"
    assert sys.modules["namesake_app"] is there[first]


def test_two_of_one_content_are_one(tmp_path: Path) -> None:
    first, second = (written(tmp_path / name, "Colour", "namesake_colours") for name in "ab")
    assert load(first, "graph") is load(second, "graph")


def test_what_could_be_taken_for_another_is_refused_and_leaves_the_first_as_it_was(tmp_path: Path) -> None:
    first = written(tmp_path / "a", "Colour", "namesake_colours")
    load(first, "graph")
    member = namesakes._LOADED[first].Colour.A
    same_class = written(tmp_path / "b", "Colour", "namesake_shades")
    with pytest.raises(ManifestError, match="has a payload type namesake_app:Colour too"):
        load(same_class, "graph")
    same_import = written(tmp_path / "c", "Shape", "namesake_colours", 3)
    with pytest.raises(ManifestError, match="an import of 'namesake_colours' could mean"):
        load(same_import, "graph")
    broken = written(tmp_path / "d", "Broken", "namesake_broken")
    broken.write_text("import flamestream as fs\nfs.no_such_thing\n")
    with pytest.raises(UserError, match=r"namesake_app.py:2: the application does not load"):
        load(broken, "graph")
    assert decode(encode(member)) is member
    assert load(first, "graph").name == "Colour"


def test_a_module_that_is_no_application_keeps_its_name(tmp_path: Path) -> None:
    file = tmp_path / "json.py"
    file.write_text("")
    with pytest.raises(ManifestError, match="a module named 'json' is loaded already"):
        load(file, "graph")
