"""Files that docs, docstrings and comments name are there."""

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"(?<![\w/.*-])((?:[\w-]+/)+[\w-]+\.(?:py|rs|md|pyi|toml|yaml))(?![\w/])")
EXAMPLES = {"a/b/c.py", "a/c.py", "a/z.py", "shop/prices.py"}
"""Names that stand for any file's."""


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


FILES = tracked()
TEXTS = [name for name in FILES if name.endswith((".md", ".py", ".rs", ".yaml", ".toml")) or name in ("Makefile", "Dockerfile")]


def prose(name: str) -> str:
    """What a file says to its readers: of Python its docstrings and comments."""
    file = ROOT / name
    return "\n".join(_remarks(file)) if name.endswith(".py") else file.read_text()


def _remarks(file: Path) -> Iterator[str]:
    with file.open("rb") as lines:
        yield from (token.string for token in tokenize.tokenize(lines.readline) if token.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def absent(text: str) -> set[str]:
    """Files that `text` names, by a path of at least one folder, and that no path of the checkout ends with."""
    named = {name.removeprefix("../") for name in FILE.findall(text)} - EXAMPLES
    return {name for name in named if not any(there == name or there.endswith(f"/{name}") for there in FILES)}


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in TEXTS}))
def test_a_file_that_is_named_is_there(folder: str) -> None:
    texts = [name for name in TEXTS if name.partition("/")[0] == folder]
    found = {name: names for name in texts if (names := absent(prose(name)))}
    assert not found


def test_a_file_that_went_away_is_noticed() -> None:
    assert absent("as core/nowhere.py makes them, and core/worker/worker.py") == {"core/nowhere.py"}
