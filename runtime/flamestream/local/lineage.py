"""Lineage: which run folder a checkpoint store belongs to.

The cluster state of a job on one machine lives in its run folder. A start from another run folder would begin
again at attempt 1, beside or on top of what the first one has written, and no fence could tell the two apart.
So the first start leaves the run folder's lineage in the store, create-if-absent, and a start with another
lineage is refused.

Keeps: one store, one cluster state. Does not: protect a sink's folder that two jobs with different stores
name.
"""

import secrets
from pathlib import Path
from typing import Final

import msgspec

from flamestream.job.exit_codes import AlreadyRunning
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, UserError
from flamestream.node.run_folder import RunFolder
from flamestream.ports import ObjectStore

NAME: Final = "lineage.json"


class Lineage(msgspec.Struct, frozen=True):
    """The identity of a run folder."""

    id: str
    run_folder: str
    """The path that it had, for messages."""
    job: str = ""
    """The job that it is of; "" in those of earlier releases."""


def look(store: ObjectStore, folder: RunFolder, job: str, url: str) -> None:
    """See that the store is this run folder's, or nobody's, without claiming it. Raises AlreadyRunning or
    UserError: whose it is."""
    theirs = of_store(store, url)
    if theirs is not None and theirs.id != of_folder(folder):
        raise _refusal(theirs, job, url)


def claim(store: ObjectStore, folder: RunFolder, job: str, url: str) -> bool:
    """Make the store this run folder's, or see that it is; whether it was nobody's. Raises as `look` does."""
    # The folder's own file comes first: after a crash between the two the store is nobody's, and never one
    # whose folder does not know it (!).
    # create-if-absent: of two starts one has it
    if store.put_new(NAME, msgspec.json.encode(_made(folder, job))):
        return True
    look(store, folder, job, url)
    return False


def renew(store: ObjectStore, folder: RunFolder, job: str) -> None:
    """Say where the run folder of a store is now. A crash in between leaves the store nobody's for a while."""
    file = folder.path / NAME
    if file.exists():
        folder.write(NAME, Lineage(_read(file).id, str(Path(folder.path)), job))
        store.delete(NAME)
        store.put_new(NAME, msgspec.json.encode(_read(file)))


def of_store(store: ObjectStore, url: str) -> Lineage | None:
    """The lineage that a store belongs to; None: nobody's. Raises Corrupt if it is damaged."""
    if NAME not in store.names(NAME):
        return None
    try:
        return from_json(store.get(NAME), Lineage)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{url}: its {NAME} is damaged ({error}): is it a store of FlameStream's?") from error


def of_folder(folder: RunFolder) -> str:
    """The identity of a run folder; "" if it has none yet."""
    file = folder.path / NAME
    return _read(file).id if file.exists() else ""


def _refusal(theirs: Lineage, job: str, url: str) -> UserError:
    if theirs.job and theirs.job != job:
        return UserError(
            f"the checkpoint store {url} belongs to job {theirs.job!r} (run folder {theirs.run_folder}): "
            f"give job {job!r} a store of its "
            "own in spec.checkpoint.store, or remove the other job's with `flamestream reset "
            f"{theirs.run_folder}`"
        )
    return AlreadyRunning(
        f"the checkpoint store {url} belongs to a run whose folder is {theirs.run_folder}: "
        f"go on with it by --run-folder {theirs.run_folder}; to begin anew, "
        f"`flamestream reset {theirs.run_folder}` removes what it has left"
    )


def _made(folder: RunFolder, job: str) -> Lineage:
    file = folder.path / NAME
    if not file.exists():
        folder.write(file.name, Lineage(secrets.token_hex(16), str(Path(folder.path)), job))
    return _read(file)


def _read(file: Path) -> Lineage:
    try:
        return from_json(file.read_bytes(), Lineage)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{file} is damaged: {error}") from error
