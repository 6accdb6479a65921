"""The application as a run began with it: a copy of its files, for workers that start again after an edit.

    code/DIGEST/    a folder for each

Whoever edits a file of a job that runs has not changed the job: a worker that dies meanwhile comes back with
the code of the others, and goes on.

Keeps: a copy is whole, and its name is the digest of what is in it; MOST of them. Does not: copy anything but
modules: an application that reads other files beside its own finds those of now, or none.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from flamestream.job.application import folders_of, located
from flamestream.job.application_code import code_of, files_of
from flamestream.job.py_files import PyFile

MOST: Final = 16


def keep(root: Path, file: Path, code: str, py_files: Sequence[PyFile] = ()) -> None:
    """Copy the application in `file`, whose digest is `code`, below `root`, and let the oldest copies go.
    Raises OSError."""
    if not file.is_file():
        return  # it is in an archive of pyFiles, which is named by its content
    target, fresh = root / code, root / f".{code}.{os.getpid()}"
    if not target.exists():
        shutil.rmtree(fresh, ignore_errors=True)
        for name, path in files_of(file).items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copyfile(path, fresh / name)
        # Edited while it was copied: no copy is better than one with a wrong name.
        if code_of(fresh / file.name, py_files) != code:
            shutil.rmtree(fresh)
            return
        os.replace(fresh, target)
    os.utime(target)
    for old in sorted(_copies(root), key=lambda copy: copy.stat().st_mtime)[:-MOST]:
        shutil.rmtree(old)


def as_begun(file: Path, code: str, root: str, py_files: Sequence[PyFile] = ()) -> Path:
    """Where the application with digest `code` is: in `file`, or in the copy below `root` if that was edited.
    `file` itself if there is none, or nobody said which code is meant. Raises UserError."""
    kept = Path(root) / code / file.name
    if not code or not root or not kept.is_file():
        return file
    there = located(file, folders_of(py_files))
    return file if there.is_file() and code_of(there, py_files) == code else kept


def copy_of(root: Path, file: Path, code: str, py_files: Sequence[PyFile] = ()) -> Path | None:
    """The application in `file` as it was with digest `code`, maybe in a file of another name; None if there is
    no whole copy below `root`. Raises UserError."""
    there = (root / code).glob("*.py")
    kept = sorted(there, key=lambda each: (each.name != file.name, each.name))
    return next((each for each in kept if code_of(each, py_files) == code), None)


def link_copies(root: Path, folders: Iterable[Path], py_files: Sequence[PyFile] = ()) -> None:
    """Make `root` one for `copy_of`, of copies in `folders` whose names say nothing. Raises OSError, and UserError
    for a file that cannot be read."""
    for file in (file for folder in folders for file in folder.glob("*.py")):
        link = root / code_of(file, py_files)
        if not link.exists():  # the same in two of them
            link.symlink_to(file.parent)


def _copies(root: Path) -> list[Path]:
    return [each for each in root.iterdir() if each.is_dir() and not each.name.startswith(".")]
