"""The object store on a folder.

An object is written to a temporary file, made durable, and then linked to its name: `link` fails if the name
exists, so creating is atomic, happens once, and a part of an object is never visible under its name.
Temporary files lie in `.tmp` of the same folder; a writer holds a lock on its own, so whoever opens the store
can tell a dead writer's leftovers from work under way and removes them.

Keeps: an object that `put_new` reports (as new or as existing) survives a crash of the machine; objects never
change. Does not: create the root unless told to (a missing one is more likely an unmounted volume than a
first start), or retry. Source: ours; `link` as create-if-absent is from the open(2) manual's note on O_EXCL.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final, NoReturn
from uuid import uuid4

from flamestream.model.errors import Corrupt, StoreUnavailable
from flamestream.store.object_names import check_name

TEMPORARY: Final = ".tmp"
_TRIES: Final = 3
"""Tries of a write: a cleaner may take its temporary file in the instant before it is locked; more than once
is not chance."""
_ABSENT: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_ADVICE: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "raise the quota or free some space",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give this user the right to read and write it",
    errno.EPERM: "give this user the right to read and write it",
    errno.ENOENT: "create it, or mount the volume that holds it",
    errno.ENOTDIR: "a file is where a folder must be: move it away",
    errno.EIO: "check the disk and the kernel's log",
    errno.EMFILE: "raise the limit of open files",
}


class LocalStore:
    """`ports.ObjectStore` on the folder `root`."""

    def __init__(self, root: Path, *, create: bool = False, durable: bool = True) -> None:
        """`durable=False` leaves out every fsync: objects then survive processes but not the machine."""
        self.root = root
        self._durable = durable
        try:
            if create:
                _make_folders(root, durable)
            os.listdir(root)
            self._remove_leftovers()
        except OSError as error:
            unavailable("open the store", root, error)

    def put_new(self, name: str, data: bytes | memoryview) -> bool:
        """Create the object, durably. False if the name exists already."""
        path = self.root / check_name(name)
        try:
            self._make_parents(path.parent)
            for _ in range(_TRIES):
                try:
                    return self._write_and_link(path, data)
                except FileNotFoundError as error:
                    lost = error
            raise lost
        except OSError as error:
            unavailable("write", path, error)

    def get(self, name: str) -> bytes:
        """The bytes of an object. Raises Corrupt naming it if there is none."""
        path = self.root / check_name(name)
        try:
            return path.read_bytes()
        except _ABSENT:
            self._check_open()
            raise Corrupt(
                f"object {name!r} is missing in {self.root}: restore {path} from a backup, "
                "or choose an older snapshot"
            ) from None
        except OSError as error:
            unavailable("read", path, error)

    def delete(self, *names: str) -> None:
        """Remove objects; absent ones are fine. Not forced to disk: one that comes back after a crash is an
        orphan, and harmless."""
        for path in [self.root / check_name(name) for name in names]:
            try:
                path.unlink()
            except _ABSENT:
                self._check_open()
            except OSError as error:
                unavailable("delete", path, error)

    def names(self, prefix: str) -> list[str]:
        """Names that start with `prefix`, sorted. For people and orphans only."""
        self._check_open()
        folder = self.root / prefix.rpartition("/")[0]
        found = []
        for where, folders, files in os.walk(folder, onerror=_listing_failed):
            folders[:] = [f for f in folders if not f.startswith(".")]
            found += [
                Path(where, f).relative_to(self.root).as_posix() for f in files if not f.startswith(".")
            ]
        return sorted(name for name in found if name.startswith(prefix))

    def _write_and_link(self, path: Path, data: bytes | memoryview) -> bool:
        temporary = self.root / TEMPORARY / uuid4().hex
        fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            write_all(fd, data)
            if self._durable:
                os.fsync(fd)
            # (!) atomic, and fails if the name exists: `rename` would overwrite
            created = _link(temporary, path)
            if self._durable:
                sync_folder(path.parent)  # also if it exists: its creator may have died before this
            return created
        finally:
            temporary.unlink(missing_ok=True)
            os.close(fd)

    def _make_parents(self, folder: Path) -> None:
        """Make folders, but only below the root."""
        (self.root / TEMPORARY).mkdir(exist_ok=True)  # not with parents: fails if the root is missing
        if not folder.is_dir():
            _make_folders(folder, self._durable)

    def _check_open(self) -> None:
        """Raises StoreUnavailable if the store itself is missing, and not an object in it alone."""
        try:
            os.stat(self.root)
        except OSError as error:
            unavailable("reach the store", self.root, error)

    def _remove_leftovers(self) -> None:
        """Remove the temporary files of dead writers: nobody holds their lock."""
        folder = self.root / TEMPORARY
        # Who may only read opens it too.
        if folder.is_dir() and os.access(folder, os.W_OK):
            for name in os.listdir(folder):
                _remove_if_dead(folder / name)


def unavailable(verb: str, path: Path, error: OSError) -> NoReturn:
    """Raise StoreUnavailable that says what a disk's error means, and what to do."""
    code = errno.errorcode.get(error.errno or 0, "unknown")
    advice = _ADVICE.get(error.errno or 0, "check the disk and the folder")
    raise StoreUnavailable(f"cannot {verb} {path}: {error.strerror} ({code}); {advice}") from error


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of `data`: one call may take less than it was given."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_folder(folder: Path) -> None:
    """Make names in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _link(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    return True


def _make_folders(folder: Path, durable: bool) -> None:
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        if durable:
            sync_folder(each.parent)


def _remove_if_dead(path: Path) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return
    finally:
        os.close(fd)


def _listing_failed(error: OSError) -> None:
    if error.errno != errno.ENOENT:
        unavailable("list", Path(str(error.filename)), error)
