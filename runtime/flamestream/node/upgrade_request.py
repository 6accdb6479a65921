"""The request of an upgrade on one machine: a file in the run folder, from `flamestream upgrade` to the launcher.

The command has loaded and checked the application; the launcher cannot load another one of that name in its
own process, so it is given all that workers and coordinator have to be told, but for what it knows itself.

Does not: decide whether the upgrade is made (core/coordinator/upgrade.py).
"""

from typing import Final

import msgspec

from flamestream.core.coordinator.coordination import Settings
from flamestream.node.worker_process import WorkerProcessConfig

FILE: Final = "upgrade.json"


class UpgradeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All of the file. For its owner's eyes only: clients of calls may hold keys."""

    manifest: str
    """Absolute path."""
    settings: Settings | None
    """The coordinator's. None: what was asked for before is called off."""
    worker: WorkerProcessConfig
    """Without address, token and journal, which stay what they are."""
    count: int
    """Workers and standbys."""
