"""The application's code: its file, what that imports from its own folder, and what `pyFiles` names, as one
digest.

It stands with each epoch, so that an edited application is noticed before it goes on with the state of
another one.

Keeps: equal code in other folders, on other machines, gives the same digest. Does not: see what is imported
by a name that is computed.
"""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from flamestream.job.application import digest_of, folders_of, located
from flamestream.job.py_files import PyFile
from flamestream.model.errors import UserError


def code_of(file: Path, py_files: Sequence[PyFile] = ()) -> str:
    """The digest of the application in `file`, as it stands on disk. Raises UserError."""
    try:
        own = digest_of(files_of(file))
    except OSError as error:
        raise UserError(
            f"{error.filename}: the application's file cannot be read: {error.strerror}"
        ) from error
    whole = "\n".join([own, *(f"{each.name} {each.sha256}" for each in py_files)])
    return hashlib.sha256(whole.encode()).hexdigest() if py_files else own


def code_found(file: Path, py_files: Sequence[PyFile]) -> str:
    """The same of the application that a process which was told `file` loads: there, or in an archive of
    `py_files`. Raises UserError."""
    return code_of(located(file, folders_of(py_files)), py_files)


def files_of(file: Path) -> dict[str, Path]:
    """The application's file and every file of its own folder that it imports, there or further on, by the
    names that imports go by.

    Import statements count wherever they stand, in functions too. What is imported by a name that is computed
    is not seen. Raises OSError.
    """
    folder = file.absolute().parent
    found = {file.name: file}
    todo = [(file, "")]
    while todo:
        path, package = todo.pop()
        for name, inner in _own_modules(folder, path.read_bytes(), package):
            if name not in found:
                found[name] = folder / name
                todo.append((found[name], inner))
    return found


def _own_modules(folder: Path, source: bytes, package: str) -> Iterator[tuple[str, str]]:
    """(file's name below `folder`, its package) of what `source`, a module of `package`, imports from
    there."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # whoever imports it says so
    for dotted in _imports(tree, package):
        parts = dotted.split(".")
        for count in range(1, len(parts) + 1):  # a package's own file comes with each of its modules
            place = "/".join(parts[:count])
            for name, inner in (
                (f"{place}.py", ".".join(parts[: count - 1])),
                (f"{place}/__init__.py", ".".join(parts[:count])),
            ):
                if (folder / name).is_file():
                    yield name, inner


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted names that may be modules: a name behind `from ... import` may be one, or be in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join(filter(None, [*above, node.module or ""]))
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
