"""Shards: the jobs of a cluster, divided over several leaders, each of which leads one shard.

A job's shard follows from its identity alone, so nobody has to be told, and who goes on with another's work
is led where that one was. By rendezvous hashing: each shard draws a number for the job, and the highest has
it.

>>> {shard_of(f"space.job-{number}", 3) for number in range(20)} == {0, 1, 2}
True
>>> before, after = ([shard_of(f"space.job-{number}", shards) for number in range(20)] for shards in (3, 4))
>>> {new for old, new in zip(before, after) if old != new}  # a shard more takes what is its own, and nothing else moves
{3}

Keeps: where it has been computed once, it is the same in every process and every version. Does not: know who leads
(kube/lease.py).
"""

from hashlib import blake2b
from typing import Final

MOST: Final = 16
"""Shards of one installation."""


def shard_of(identity: str, shards: int) -> int:
    """The shard, of so many, that the job with this identity (NAMESPACE.NAME) is in."""
    return max(
        range(shards), key=lambda shard: blake2b(f"{shard}/{identity}".encode(), digest_size=8).digest()
    )


def name_of(name: str, shard: int) -> str:
    """The name of a shard's Lease or Service, where that of the first is `name`.

    >>> name_of("operator", 0), name_of("operator", 2)
    ('operator', 'operator-2')
    """
    return f"{name}-{shard}" if shard else name
