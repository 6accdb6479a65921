"""Where things live that can be made again at any time: Java launchers, class-data archives.

`FLAMESTREAM_CACHE` if set; else inside the Python environment, so that it goes with it; else, where that is
read-only, in the user's cache folder. Nothing here is ever needed for a result.
"""

import hashlib
import os
import sys
from pathlib import Path

VARIABLE = "FLAMESTREAM_CACHE"


def cache_folder(kind: str, key: str) -> Path:
    """The folder of what is made from `key`; it need not exist."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return _root() / kind / digest


def _root() -> Path:
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    if os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix, "flamestream-cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flamestream")
