"""The entries of `application.pyFiles` in a manifest: archives and modules for the path of every process that
loads the application.

| written                                                      | is |
|--------------------------------------------------------------|-----|
| `shop.zip`, `/shared/shop-1.0-py3-none-any.whl`, `prices.py` | a file |
| `s3://bucket/shop.zip?endpoint=http://host:port`             | an object; keys, region as for the checkpoint store |
| any of these with `#sha256=HEX` behind it                    | the same with this content, and with no other |

A file is known by its content. It is unpacked once a machine into a folder of the user's own that is named by
its SHA-256, so a process that starts again, a hundred workers beside each other, and a file that is replaced
while the job runs all read the same bytes.

Keeps: what is put on the path is whole, pure Python, and takes the place of no module of Python's or of
FlameStream's. Does not: say where on the path (application.py).
"""

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlencode

import msgspec

from flamestream.job import unpacked
from flamestream.job.unpacked import Contents
from flamestream.model.errors import Corrupt, ManifestError
from flamestream.store.places import parsed_s3, store_from

SETTING: Final = "spec.application.pyFiles"
MOST_BYTES: Final = 256 << 20
"""The most bytes of a file."""
_PIN: Final = re.compile(r"(.*?)(?:#sha256=([0-9a-f]{64}))?", re.DOTALL)
_OURS: Final = ("flamestream", "flamestream_operator")


class PyFile(msgspec.Struct, frozen=True):
    """A file as it was found, and is to be found by everyone."""

    place: str
    """An absolute path or a URL."""
    sha256: str
    """Hash of its bytes, in hex."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.place.partition("?")[0]).name

    def __str__(self) -> str:
        """As a manifest can say it."""
        return f"{self.place}#sha256={self.sha256}"


def split(written: str) -> tuple[str, str]:
    """Place, and the content that it is pinned to ("": any). Raises ManifestError."""
    match = _PIN.fullmatch(written)
    assert match is not None, "the pattern takes everything"
    place, pin = match[1], match[2] or ""
    if not place.partition("?")[0].endswith((".zip", ".whl", ".py")):
        raise ManifestError(
            f"{written!r} is no archive (.zip, .whl) and no module (.py), perhaps with #sha256= and 64 hex "
            "digits behind it"
        )
    if "#" in place:
        raise ManifestError(
            f"{written!r}: what it is pinned to is written #sha256= and 64 hex digits, behind everything else"
        )
    if "://" in place and not place.startswith("s3://"):
        raise ManifestError(f"{written!r} has an unknown scheme: write a path, or s3://bucket/name.zip")
    return place, pin


def found(place: str, pin: str = "") -> PyFile:
    """The file at an absolute path or URL, read, checked and unpacked.

    Raises ManifestError, or StoreUnavailable for a store that is away.
    """
    data = _read(place)
    file = PyFile(place, hashlib.sha256(data).hexdigest())
    # before anything of it is unpacked: another content is another application
    if pin and file.sha256 != pin:
        raise ManifestError(
            f"{place} has the SHA-256 {file.sha256}, and is to have {pin}: put the file back, "
            "or write the new one, which is a change of the application"
        )
    _unpacked(file, data)
    return file


def folder_of(file: PyFile) -> Path:
    """Folder with the contents of a file, for the path; kept for this process.

    Raises what `found` raises: also for a file that has changed since it was found.
    """
    # Again and again: until this process holds it, another that makes room may take it away.
    while (there := unpacked.kept(_key(file))) is None:
        found(file.place, file.sha256)
    return there


def check_loaded(files: Sequence[PyFile], folders: Sequence[Path], application: Path) -> None:
    """Refuse what this process has loaded from elsewhere: it would stay, and other processes would get
    another. Raises ManifestError."""
    ours = [*folders, application]
    for file, folder in zip(files, folders, strict=True):
        for module in sorted(_modules([path.name for path in folder.iterdir()])):
            where = getattr(sys.modules.get(module), "__file__", None)
            if where is not None and not any(Path(where).is_relative_to(each) for each in ours):
                raise ManifestError(
                    f"{file.place} holds a module {module!r}, and this process has loaded another one "
                    f"({where}): leave it out, or build the version that you need into the image"
                )


def _key(file: PyFile) -> str:
    """A module is its content under a name."""
    return file.sha256 + (f"-{file.name.removesuffix('.py')}" if file.name.endswith(".py") else "")


# --- reading ------------------------------------------------------------------------------------------------


def _read(place: str) -> bytes:
    if place.startswith("s3://"):
        bucket, path, options = parsed_s3(place, SETTING)
        folder, _, name = path.rpartition("/")
        store = store_from(f"s3://{bucket}/{folder}?{urlencode(options)}".rstrip("?"), setting=SETTING)
        try:
            return store.get(name)
        except Corrupt as error:
            raise ManifestError(f"{place} is not there: {error}") from error
    try:
        if os.path.getsize(place) > MOST_BYTES:
            raise ManifestError(
                f"{place} has more than {MOST_BYTES >> 20} MiB: build what it holds into the image"
            )
        return Path(place).read_bytes()
    except OSError as error:
        raise ManifestError(f"{place} cannot be read: {error.strerror}") from error


def _unpacked(file: PyFile, data: bytes) -> None:
    """Into its folder, if it is not there yet; what cannot be used is refused before."""
    contents = Contents(file.place, file.name, data)
    if file.name.endswith(".whl") and not file.name.endswith("-none-any.whl"):
        raise ManifestError(
            f"{file.place} is built for one platform: only pure Python can be added, "
            "so build it into the image"
        )
    for name in contents.names:
        if name.endswith((".so", ".pyd", ".dylib", ".dll")):
            raise ManifestError(f"{file.place} is not pure Python, it holds {name}: build it into the image")
    for module in sorted(_modules(contents.names)):
        if module in sys.stdlib_module_names or module in _OURS:
            whose = "FlameStream's" if module in _OURS else "Python's"
            raise ManifestError(
                f"{file.place} holds a module {module!r}, which would take the place of {whose} own: "
                "rename it"
            )
    unpacked.make(_key(file), contents)


def _modules(names: list[str]) -> set[str]:
    """The modules that can be imported from an archive's top."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    return {top.removesuffix(".py") for top in tops if top.removesuffix(".py").isidentifier()} - {
        "__pycache__",
        "__main__",
    }
