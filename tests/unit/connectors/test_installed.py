"""Which connectors there are: no other room knows a kind by its name, and another package's is one of them or
refused by name."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.connectors import installed, sinks, sources
from flamestream.model.errors import UserError
from support import shelf

ROOT = Path(__file__).parents[3]
OURS = "runtime/flamestream/connectors/"
NOUNS = {"memory", "http", "events"}
"""Kinds whose name is also another thing's: a pod's resource, a scheme, an API's objects."""
OTHERS = {
    "runtime/flamestream/cli/demo.py", "runtime/flamestream/job/journal_of.py",
    "runtime/flamestream/model/calls/clients.py", "runtime/flamestream/testing/given_clients.py",
}  # fmt: skip
"""The demo writes a manifest; a journal's own field is `kafka`; `call.postgres` and `call.redis` are a user's words."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path, where packages may be put; what was found there is forgotten."""
    monkeypatch.syspath_prepend(str(tmp_path))
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    installed.source_kinds.cache_clear()
    installed.sink_kinds.cache_clear()
    installed.client_kinds.cache_clear()
    sys.modules.pop("shelf_connector", None)


def test_a_connector_of_another_package_comes_behind_ours(path: Path) -> None:
    shelf.installed(path)
    assert list(installed.source_kinds())[-1] == list(installed.sink_kinds())[-1] == "shelf"
    assert sources.describe({"shelf": {"path": "x"}}).run_length == 4
    assert sources.placed({"shelf": {"path": "x"}}, Path("/manifest")) == {"shelf": {"path": "/manifest/x"}}
    assert sinks.describe({"shelf": {"path": "x"}}).fences


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("files = shelf_connector:TAKEN", "there is a connector 'files' already"),
        ("shelf = shelf_connector:NOTHING", "cannot be loaded: AttributeError"),
        ("shelf = shelf_connector:Lines", "not a flamestream.connectors.kit.connector.Connector"),
    ],
)
def test_a_package_whose_connector_cannot_be_had_is_named(path: Path, entry: str, message: str) -> None:
    shelf.installed(path, entry)
    with pytest.raises(UserError, match=f"of package shelf-connector.*{message}"):
        installed.sink_kinds()


def test_the_table_of_the_manifest_has_every_kind_that_may_be_written() -> None:
    page = (
        (ROOT / "docs" / "reference" / "manifest.md")
        .read_text()
        .partition("## Sources and sinks")[2]
        .partition("\n## ")[0]
    )
    cells = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    named = [{name for row in cells for name in re.findall(r"`(\w+)`", row[side])} for side in (1, 3)]
    assert named == [set(installed.source_kinds()) - {"parquet", "memory"}, set(installed.sink_kinds())]


def test_no_other_room_knows_a_kind_by_its_name() -> None:
    rooms = {
        file.relative_to(ROOT).as_posix(): file
        for room in ("runtime", "operator")
        for file in (ROOT / room).rglob("*.py")
    }
    assert {
        name for name, file in rooms.items() if not name.startswith(OURS) and _asks_for_a_kind(file)
    } == OTHERS


def _asks_for_a_kind(file: Path) -> bool:
    kinds = {each.kind for each in installed.BUILT_IN} - NOUNS
    return any(
        isinstance(node, ast.Constant) and node.value in kinds
        for node in ast.walk(ast.parse(file.read_text()))
    )
