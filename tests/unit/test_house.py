"""What a reader of the house may rely on: a folder can be read as a list, a docstring stands alone, and one
word has one thing."""

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_FILES = 25
NO_BEGINNING = {"Of", "By", "What", "One", "Now"}
"""A docstring that begins so is the answer to a question that nobody has asked."""
GONE = {"desk", "tally", "lane", "reconcile.py", "RecordFile", "OwnThread"}
"""Names that have given way to the field's words (docs/reference/glossary.md)."""
MODULES = [file for room in ("runtime", "operator") for file in sorted((ROOT / room).rglob("*.py"))]


def folders(names: list[str]) -> Counter[str]:
    """How many files stand in each folder."""
    return Counter(name.rpartition("/")[0] for name in names)


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts in the place of a docstring: of modules, classes, functions, and under a name that is assigned."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        owner = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        before: list[ast.AST | None] = [None, *body]
        for above, it in zip(before, body, strict=False):
            documented = owner if above is None else isinstance(above, ast.Assign | ast.AnnAssign)
            if documented and isinstance(it, ast.Expr) and isinstance(it.value, ast.Constant):
                yield it.lineno, str(it.value.value)


def answers(source: str) -> list[int]:
    """Lines of docstrings that do not say what a thing is."""
    found = docstrings(ast.parse(source))
    return [
        line for line, text in found if text.split()[:1] and text.split()[0].strip(",.:;") in NO_BEGINNING
    ]


def names_in(source: str) -> set[str]:
    """Names that code gives to things."""
    nodes = list(ast.walk(ast.parse(source)))
    given = {node.id for node in nodes if isinstance(node, ast.Name)}
    defined = {
        node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return given | defined | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_no_folder_has_more_files_than_a_reader_takes_in() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    assert {folder: count for folder, count in folders(names).items() if count > MOST_FILES} == {}


def test_a_folder_is_counted_without_the_folders_in_it() -> None:
    assert folders(["a/b", "a/c", "a/d/e", "f"]) == {"a": 2, "a/d": 1, "": 1}


def test_a_docstring_stands_alone() -> None:
    found = {file.relative_to(ROOT): lines for file in MODULES if (lines := answers(file.read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    "source", ['"""Of a try."""', 'def f():\n """By name."""', 'class C:\n a: int = 1\n """What, then."""']
)
def test_a_docstring_that_answers_a_question_is_seen(source: str) -> None:
    assert answers(source) and not answers(
        source.replace("Of", "End of").replace("By", "All").replace("What", "It")
    )


def test_names_that_have_gone_stay_away() -> None:
    found = {
        file.relative_to(ROOT): names for file in MODULES if (names := GONE & names_in(file.read_text()))
    }
    assert found == {}
