"""Archives of Python code, unpacked once a machine and user, each into a folder named by what it holds.

    ROOM/KEY/            whole, or not there: it is made beside and renamed
    ROOM/.KEY.pid.new    being made

A process holds a shared lock on each folder that it uses, as long as it lives. At most MOST folders stay: the
oldest that nobody holds goes when a new one is made.

Keeps: a folder never changes; its members are whole (their checksums), below it, and bounded. Does not: know
what is in them (py_files.py).
"""

import fcntl
import os
import shutil
import tempfile
import zipfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Final

from flamestream.model.errors import ManifestError, UserError

ROOM: Final = Path(tempfile.gettempdir()) / f"flamestream-{os.getuid()}" / "py-files"
MOST: Final = 16
MOST_BYTES: Final = 1 << 30
"""The size of an archive's contents at most."""
_held: dict[Path, int] = {}


class Contents:
    """The files of an archive, or the one module that it is. Raises ManifestError if it is torn or leads out
    of its folder."""

    def __init__(self, place: str, name: str, data: bytes) -> None:
        self._place, self._data = place, data
        self._archive = None if name.endswith(".py") else self._opened()
        self.names: list[str] = (
            [name] if self._archive is None else [info.filename for info in self._files(self._archive)]
        )
        """Their paths, with slashes."""
        if self._archive is None:
            self._compile(name)

    def write(self, folder: Path) -> None:
        """All of them, below `folder`. Raises ManifestError for one that is damaged."""
        if self._archive is None:
            (folder / self.names[0]).write_bytes(self._data)
            return
        for name in self.names:
            target = folder / name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._archive.read(name))
            except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError) as error:
                raise self._torn(f"its member {name} cannot be read ({error})") from error

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(BytesIO(self._data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:  # its version, a name's bytes
            raise self._torn(str(error)) from error

    def _files(self, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        files = [info for info in archive.infolist() if not info.is_dir()]
        for info in files:
            path = PurePosixPath(info.filename)
            # (!) or it writes where it likes
            if path.is_absolute() or ".." in path.parts or "\\" in info.filename:
                raise ManifestError(
                    f"{self._place} holds {info.filename!r}, which leads out of its folder: "
                    "make the archive anew"
                )
        if sum(info.file_size for info in files) > MOST_BYTES:
            raise ManifestError(
                f"{self._place} holds more than {MOST_BYTES >> 20} MiB: build what it holds into the image"
            )
        return files

    def _compile(self, name: str) -> None:
        try:
            compile(self._data, self._place, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise ManifestError(f"{self._place} is no Python module {name}: {error}") from error

    def _torn(self, why: str) -> ManifestError:
        return ManifestError(f"{self._place} is torn, or no zip archive: {why}: copy or build it again")


def kept(key: str) -> Path | None:
    """The folder of that name, held by this process from now on; None if it is not there. Raises UserError if
    others may have put it there."""
    folder = ROOM / key
    if folder in _held:
        return folder
    _room()  # (!) before anything there is run, not only before something is added
    while True:
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return None
        fcntl.flock(held, fcntl.LOCK_SH)  # never released: the folder is ours as long as we live
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held), os.stat(folder)):  # else it was removed before we had it
                # its age is since its last use: the oldest goes
                os.utime(folder)
                _held[folder] = held
                return folder
        os.close(held)


def make(key: str, contents: Contents) -> None:
    """Make the folder of that name, if it is not there yet."""
    _room()
    folder, fresh = ROOM / key, ROOM / f".{key}.{os.getpid()}.new"
    if folder.exists():
        return
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)  # beside: what has the right name is whole (!)
    try:
        contents.write(fresh)
        with suppress(OSError):  # somebody else was faster: theirs is the same
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    _make_room()


def _room() -> None:
    """Make the room, ours alone: what lies there is run. Raises UserError if it is not."""
    for folder in (ROOM.parent, ROOM):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if (
            found.st_uid != os.getuid()
            or found.st_mode & 0o077
            or not os.path.isdir(folder)
            or os.path.islink(folder)
        ):
            raise UserError(
                f"{folder} belongs to somebody else, or others may write there: remove it, or set TMPDIR"
            )


def _make_room() -> None:
    """Remove the oldest folders that nobody holds, down to MOST."""
    folders = sorted((path for path in ROOM.iterdir() if not path.name.startswith(".")), key=_last_used)
    surplus = len(folders) - MOST
    for folder in folders:
        # one that is held is passed over: then a younger one goes for it
        if surplus > 0 and _removed(folder):
            surplus -= 1


def _last_used(folder: Path) -> float:
    with suppress(FileNotFoundError):
        return folder.stat().st_mtime
    return 0.0


def _removed(folder: Path) -> bool:
    """Whether a folder could be removed: nobody holds it."""
    with suppress(FileNotFoundError, BlockingIOError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = folder.with_name(f".{folder.name}.{os.getpid()}.old")
            folder.rename(gone)  # at once: nobody finds half of it
            shutil.rmtree(gone, ignore_errors=True)
            return True
        finally:
            os.close(held)
    return False
