"""The request of an upgrade, or of a hand-over, on one machine: a file in the run folder, from the command to the
launcher.

The command has loaded and checked the application; the launcher cannot load another one of that name in its
own process, so it is given all that workers and coordinator have to be told, but for what it knows itself.

Does not: decide whether the upgrade is made (core/coordinator/changes/upgrade.py).
"""

from typing import Final

import msgspec

from flamestream.core.coordinator.coordination import Settings
from flamestream.node.worker_process import WorkerProcessConfig

FILE: Final = "upgrade.json"


class HandOverRequest(msgspec.Struct, frozen=True, tag=True):
    """All of the file, where another job is to go on."""

    to: str
    """Its name. "": the job is to go on as ever."""


class UpgradeRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All of the file. For its owner's eyes only: clients of calls may hold keys."""

    manifest: str
    """Absolute path."""
    settings: Settings | None
    """The coordinator's. None: what was asked for before is called off."""
    worker: WorkerProcessConfig
    """Without address, token and journal, which stay what they are."""
    count: int
    """Workers and standbys."""
