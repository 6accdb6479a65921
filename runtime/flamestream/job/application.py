"""Loads the graph of a job from the user's Python file.

The file is imported under its own name with its folder on the path, as `python FILE` would find it, and
behind it what `pyFiles` names (py_files.py), so its functions and payload types have the same names in every
process.

Keeps: a file is executed once a process. Does not: validate the graph against the manifest
(job/validation.py).
"""

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from flamestream.job.namesakes import executed, loaded, namesake
from flamestream.job.py_files import PyFile, check_loaded, folder_of
from flamestream.model.calls.productions import with_productions
from flamestream.model.errors import FlameStreamError, ManifestError, UserError
from flamestream.model.graph import Graph
from flamestream.model.vertex import is_ours, line_of

_LAST_LINES = 3
_PLACED: Final = re.compile(r"\S+\.py:\d+: ")
"""How a message begins that says its place itself."""


def load(file: Path, graph: str, py_files: Sequence[PyFile] = (), *, productions: bool = False) -> Graph:
    """The validated graph that `file` calls `graph`, with `py_files` on the path of this process.

    The application's folder comes first, then these in their order, then everything else. `productions`: with
    a call in the place of each chain of its functions, as `strong-productions` has it. Raises UserError with
    the place in the file, and GraphError.
    """
    folders = folders_of(py_files)
    file = located(file, folders)
    check_loaded(py_files, folders, file.absolute().parent)
    module = _imported(file, folders)
    if not hasattr(module, graph):
        graphs = [name for name, value in vars(module).items() if isinstance(value, Graph)]
        there = (
            f"it has {', '.join(graphs)}"
            if graphs
            else "it has none: create one with flamestream.Graph(name)"
        )
        raise ManifestError(f"{file}: there is no graph named {graph!r}; {there}")
    found = getattr(module, graph)
    if not isinstance(found, Graph):
        raise ManifestError(f"{file}: {graph} is a {type(found).__name__}, not a flamestream.Graph")
    return with_productions(found.validated()) if productions else found.validated()


def folders_of(py_files: Sequence[PyFile]) -> list[Path]:
    """The folders on this machine with their contents, fetched if they are not there. Raises ManifestError,
    or StoreUnavailable."""
    return [folder_of(file) for file in py_files]


def located(file: Path, folders: Sequence[Path]) -> Path:
    """The application's file: where it is written, or else at the top of the first archive that has one of
    its name."""
    return next(
        (there for there in (file, *(folder / file.name for folder in folders)) if there.is_file()), file
    )


def _put_first(folders: Sequence[Path]) -> None:
    """Before site-packages. The folders hold no module of Python's (py_files.py)."""
    first = list(dict.fromkeys(map(str, folders)))
    sys.path[:] = [*first, *(entry for entry in sys.path if entry not in first)]


def digest_of(files: Mapping[str, Path]) -> str:
    """A digest that tells two versions of an application's files apart: 64 hex digits over their names and
    contents.

    The names are those that imports go by (`job.py`, `shop/prices.py`, `lib.zip`), not places, so that equal
    files in other folders, on other machines, give the same digest. Neither the order of the mapping nor a
    file's time or rights count. Raises OSError.
    """
    whole = hashlib.sha256()
    for name in sorted(files):
        with files[name].open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        # of equal lengths, so that no two mappings look alike
        whole.update(hashlib.sha256(name.encode()).digest() + content)
    return whole.hexdigest()


def _imported(file: Path, py_files: Sequence[Path]) -> ModuleType:
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise ManifestError(f"{file}: the application must be a .py file whose name can be imported")
    if not file.is_file():
        raise ManifestError(f"{file}: the application file is not there")
    known = sys.modules.get(file.stem)  # a file is executed once a process (!)
    if known is not None:
        if Path(getattr(known, "__file__", None) or "").absolute() == file.absolute():
            return known
        return namesake(file, known, lambda: _executed(file, lambda: executed(file)))
    _put_first([file.absolute().parent, *py_files])
    return loaded(file, _executed(file, lambda: importlib.import_module(file.stem)))


def _executed(file: Path, execute: Callable[[], ModuleType]) -> ModuleType:
    # Finders remember what a folder held: a file that was made a moment ago may not be seen.
    importlib.invalidate_caches()
    try:
        return execute()
    except FlameStreamError as error:
        if isinstance(error, UserError) and not _PLACED.match(str(error)):
            error.args = (f"{_line_of(error)}: {error}",)
        raise
    except (Exception, SystemExit) as error:  # the user's file may raise anything, and its exit is not ours
        raise UserError(
            f"{_place(error, file)}: the application does not load: {_last_lines(error)}"
        ) from error


def _line_of(error: UserError) -> str:
    """`file.py:line` of the user's innermost line that led to an error of ours."""
    *_, (frame, line) = (each for each in traceback.walk_tb(error.__traceback__) if not is_ours(each[0]))
    return line_of(frame, line)


def _place(error: BaseException, file: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file.absolute())
    ]
    return f"{file}:{frames[-1].lineno}" if frames else str(file)


def _last_lines(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error)).strip().splitlines()
    return " | ".join(line.strip() for line in lines[-_LAST_LINES:])
