"""Lineage: which run folder a checkpoint store belongs to.

The cluster state of a job on one machine lives in its run folder. A start from another run folder would begin again at attempt 1, beside
or on top of what the first one has written, and no fence could tell the two apart. So the first start leaves the run folder's lineage in
the store, create-if-absent, and a start with another lineage is refused.

Keeps: one store, one cluster state. Does not: protect a sink's folder that two jobs with different stores name.
"""

import secrets
from pathlib import Path
from typing import Final

import msgspec

from flamestream.cli.exit_codes import AlreadyRunning
from flamestream.cli.run_folder import RunFolder
from flamestream.model.errors import Corrupt
from flamestream.ports import ObjectStore

NAME: Final = "lineage.json"


class Lineage(msgspec.Struct, frozen=True):
    """Of a run folder."""

    id: str
    run_folder: str
    """Where it was, for messages."""


def claim(store: ObjectStore, folder: RunFolder, url: str) -> None:
    """Make the store this run folder's, or see that it is. Raises AlreadyRunning that names the other run folder."""
    mine = _of(folder)
    if store.put_new(NAME, msgspec.json.encode(mine)):
        return
    try:
        theirs = msgspec.json.decode(store.get(NAME), type=Lineage)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{url}: its {NAME} is damaged ({error}): is it a store of FlameStream's?") from error
    if theirs.id != mine.id:
        raise AlreadyRunning(
            f"the checkpoint store {url} belongs to a run whose folder is {theirs.run_folder}: "
            f"go on with it by --run-folder {theirs.run_folder}; to begin anew, "
            "choose another store and other sink folders, or remove the old ones"
        )


def _of(folder: RunFolder) -> Lineage:
    file = folder.path / "lineage.json"
    if not file.exists():
        folder.write(file.name, Lineage(secrets.token_hex(16), str(Path(folder.path))))
    try:
        return msgspec.json.decode(file.read_bytes(), type=Lineage)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{file} is damaged: {error}") from error
