"""Namesakes: applications of one process whose files have one name, as those of two jobs that one program asks.

The first keeps the name for imports. A file of the same content is the same module. Another one is executed under that
name too, and then stands aside, known by its file: so its classes are called, and stored, as in its job's own workers.

Keeps: no class and no module is taken for another one of its name; what would be is refused. Does not: load the first
(application.py), or let one that stands aside be run: Python's own pickles find it by its name.
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

from flamestream.model.errors import ManifestError
from flamestream.model.payloads.registry import PLANS, Plan, register

_LOADED: Final[dict[Path, ModuleType]] = {}
"""The applications of this process, by their files: imports have such a table for the first of each name only."""


def loaded(file: Path, module: ModuleType) -> ModuleType:
    """The module, which is the application in `file` from now on."""
    _LOADED[file.absolute()] = module
    return module


def namesake(file: Path, known: ModuleType, execute: Callable[[], ModuleType]) -> ModuleType:
    """The module of the application in `file`, whose name `known` has; `execute` imports it by its name.

    Raises ManifestError if `known` is no application, or if one of both would be taken for the other; and as
    `execute`.
    """
    if (there := _LOADED.get(file.absolute())) is not None:
        return there
    first = next((path for path, module in _LOADED.items() if module is known), None)
    if first is None:
        raise ManifestError(
            f"{file}: a module named {file.stem!r} is loaded already ({known}): rename the file"
        )
    _check_beside(file)
    if _equal(first, file):
        return loaded(file, known)
    sys.path.append(str(file.absolute().parent))  # behind the first's
    before = {plan.name: plan for plan in PLANS.values() if plan.cls.__module__ == file.stem}
    del sys.modules[file.stem]
    try:
        module = execute()
        _check_classes(file, first, before)
    except BaseException:
        for plan in before.values():
            register(plan)
        raise
    finally:
        sys.modules[file.stem] = known
    return loaded(file, module)


def executed(file: Path) -> ModuleType:
    """The module in `file`, imported under its name wherever the path leads."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None, "a file that ends with .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _check_beside(file: Path) -> None:
    """Raises ManifestError if an import of what is beside it could find another one, beside another application."""
    here = file.absolute().parent
    mine = _importable(here)
    for folder in sorted({path.parent for path in _LOADED} - {here}):
        for name, other in sorted(_importable(folder).items()):
            if name in mine and name != file.stem and not _equal(mine[name], other):
                raise ManifestError(
                    f"{file}: in one process an import of {name!r} could mean {mine[name]} or {other}: rename one of "
                    "them, or use another process"
                )


def _importable(folder: Path) -> dict[str, Path]:
    """The modules and packages of a folder, by the names that imports have for them."""
    packages = {file.parent.name: file.parent for file in folder.glob("*/*.py")}
    return packages | {file.stem: file for file in folder.glob("*.py")}


def _equal(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()


def _check_classes(file: Path, first: Path, before: dict[str, Plan]) -> None:
    """Raises ManifestError if it has a payload type of a name that one of the first has."""
    for plan in PLANS.values():
        if plan.name in before and plan is not before[plan.name]:
            raise ManifestError(
                f"{file}: {first} has a payload type {plan.name} too, so in one process nobody could tell them apart: "
                "rename the class or the file, or use another process"
            )
