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
EXAMPLES = {"a/b/c.py", "a/c.py", "a/z.py", "shop/prices.py", "module.py", "prices.py"}
"""Names that stand for any file's."""
ALONE = re.compile(r"(?<![\w/.*'\"-])([\w-]+\.pyi?)\b(?!/)")
MODULE = re.compile(r"\bflamestream(?:_operator)?(?:\.[a-z]\w*)+")
CLASS = re.compile(r"`((?:[a-z]\w*\.)+)([A-Z]\w*)`")
"""As in `ports.Reactor`."""
OTHERS = {"fs.", "msgspec."}
ROOMS = {"flamestream": ROOT / "runtime", "flamestream_operator": ROOT / "operator"}


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


FILES = tracked()
TEXTS = [
    name
    for name in FILES
    if name.endswith((".md", ".py", ".rs", ".yaml", ".toml")) or name in ("Makefile", "Dockerfile")
]


def prose(name: str) -> str:
    """What a file says to its readers: of Python its docstrings and comments."""
    file = ROOT / name
    return "\n".join(_remarks(file)) if name.endswith(".py") else file.read_text()


def _remarks(file: Path) -> Iterator[str]:
    with file.open("rb") as lines:
        yield from (
            token.string for token in tokenize.tokenize(lines.readline) if token.type == tokenize.COMMENT
        )
    for node in ast.walk(ast.parse(file.read_bytes())):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def absent(text: str) -> set[str]:
    """Files that `text` names, by a path of at least one folder, and that no path of the checkout ends
    with."""
    named = {name.removeprefix("../") for name in FILE.findall(text)} - EXAMPLES
    return {name for name in named if not any(there == name or there.endswith(f"/{name}") for there in FILES)}


def absent_in_code(text: str) -> set[str]:
    """What a docstring or a comment names and is not there: a file without its folder, a module, a class with
    its module."""
    known = {Path(name).name for name in FILES}
    files = {name for name in ALONE.findall(text) if name not in known | EXAMPLES}
    modules = {name for name in MODULE.findall(text) if not _is_there(name)}
    classes = {
        f"{of}{name}"
        for of, name in CLASS.findall(text)
        if of not in OTHERS and not _has(of.removesuffix("."), name)
    }
    return absent(text) | files | modules | classes


def _is_there(dotted: str) -> bool:
    """A module, or a name in one."""
    path = ROOMS[dotted.partition(".")[0]] / dotted.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").is_file() or path.with_suffix(".pyi").is_file():
        return True
    for module in (path.parent / "__init__.py", path.parent.with_suffix(".py")):
        if module.is_file() and re.search(rf"\b{path.name}\b", module.read_text()):
            return True
    return False


def _has(module: str, name: str) -> bool:
    """Whether a module that ends so has something of that name."""
    files = [there for there in FILES if there.endswith(f"/{module.replace('.', '/')}.py")]
    return any(re.search(rf"\b{name}\b", (ROOT / there).read_text()) for there in files)


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in TEXTS}))
def test_a_file_that_is_named_is_there(folder: str) -> None:
    texts = [name for name in TEXTS if name.partition("/")[0] == folder]
    found = {name: names for name in texts if (names := absent(prose(name)))}
    assert not found


@pytest.mark.parametrize("folder", ["operator", "runtime"])
def test_what_code_says_of_other_code_is_there(folder: str) -> None:
    texts = [name for name in TEXTS if name.startswith(f"{folder}/") and name.endswith(".py")]
    found = {name: names for name in texts if (names := absent_in_code(prose(name)))}
    assert not found


def test_an_invariant_is_reported_under_a_name_that_the_page_has() -> None:
    page = (ROOT / "docs/explanation/reliability.md").read_text()
    said = set(re.findall(r"\| `(\d+ [a-z ]+)` \|", page))
    texts = [
        (ROOT / name).read_text() for name in FILES if name.startswith("runtime/flamestream/simulation/")
    ]
    reported = {name for text in texts for name in re.findall(r'"(\d+ [a-z ]+)"', text)}
    assert reported and reported <= said


def test_code_that_went_away_is_noticed() -> None:
    there = (
        "nowhere.py has `nowhere.Class` of flamestream.nowhere, flamestream.ports.Nothing and `ports.Nothing`"
    )
    assert absent_in_code(there) == {"nowhere.py", "nowhere.Class", "flamestream.nowhere", "ports.Nothing"}
    assert not absent_in_code(
        "reactor.py has `ports.Reactor`, in flamestream.ports and flamestream.ports.Reactor"
    )


def test_a_file_that_went_away_is_noticed() -> None:
    assert absent("as core/nowhere.py makes them, and core/worker/worker.py") == {"core/nowhere.py"}
