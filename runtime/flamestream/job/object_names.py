"""Names of a job's objects that both the operator and `kubectl flamestream` know.

Does not: name what the operator alone looks for (flamestream_operator/objects/names.py).
"""

import hashlib
from typing import Final

LONGEST: Final = 63
"""A label's value, a host's name."""


def fitted(name: str, suffix: str, longest: int = LONGEST) -> str:
    """`name` and `suffix`; a name that is too long is cut and told apart by a hash."""
    if len(name) + len(suffix) <= longest:
        return name + suffix
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: longest - len(suffix) - 9].rstrip('-')}-{digest}{suffix}"


def zookeeper(job: str) -> str:
    """The Secret with how the job reaches ZooKeeper."""
    return fitted(job, "-zookeeper")


def queries(job: str) -> str:
    """The Service of the workers that answer, and the Secret with the token that clients prove themselves with."""
    return fitted(job, "-queries")
