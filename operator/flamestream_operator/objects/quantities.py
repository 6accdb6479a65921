"""Kubernetes quantities of memory, as Spark wants them.

>>> memory_of("1Gi"), memory_of("512M"), memory_of(1024)
(1073741824, 512000000, 1024)

Does not: know fractions of a byte.
"""

import re
from typing import Final

from flamestream.model.errors import ManifestError

_UNITS: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def memory_of(quantity: int | str) -> int:
    """Bytes. Raises ManifestError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]i?|Ki|)", str(quantity))
    if match is None or match[2] not in _UNITS:
        raise ManifestError(
            f"spec.workers.resources: {quantity!r} is not an amount of memory: write it like 512Mi or 2Gi"
        )
    return int(float(match[1]) * _UNITS[match[2]])
