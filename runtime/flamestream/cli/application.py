"""Loads the graph of a job from the user's Python file.

The file is imported under its own name with its folder on the path, as `python FILE` would find it, so its functions and payload types
have the same names in every process.

Keeps: a file is executed once a process. Does not: validate the graph against the manifest (validation.py).
"""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from flamestream.model.errors import FlameStreamError, ManifestError, UserError
from flamestream.model.graph import Graph


def load(file: Path, graph: str) -> Graph:
    """The validated graph that `file` calls `graph`. Raises UserError with the place in the file."""
    module = _imported(file)
    found = getattr(module, graph, None)
    if isinstance(found, Graph):
        return found.validated()
    graphs = [name for name, value in vars(module).items() if isinstance(value, Graph)]
    there = f"it has {', '.join(graphs)}" if graphs else "it has none: create one with flamestream.Graph(name)"
    raise ManifestError(f"{file}: there is no graph named {graph!r}; {there}")


def _imported(file: Path) -> ModuleType:
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise ManifestError(f"{file}: the application must be a .py file whose name can be imported")
    if not file.is_file():
        raise ManifestError(f"{file}: the application file is not there")
    known = sys.modules.get(file.stem)
    if known is not None:
        if Path(getattr(known, "__file__", None) or "").absolute() == file.absolute():
            return known
        raise ManifestError(f"{file}: a module named {file.stem!r} is loaded already ({known}): rename the file")
    if str(file.absolute().parent) not in sys.path:
        sys.path.insert(0, str(file.absolute().parent))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(file.stem)
    except FlameStreamError:
        raise
    except Exception as error:
        raise UserError(f"{_place(error, file)}: the application does not load: {type(error).__name__}: {error}") from error


def _place(error: Exception, file: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file.absolute())]
    return f"{file}:{frames[-1].lineno}" if frames else str(file)
