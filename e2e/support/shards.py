"""Jobs in each shard of two, and who leads them."""

from hashlib import blake2b
from typing import Final

from e2e.conftest import fresh
from e2e.support import faults
from e2e.support.installation import Installation
from e2e.support.kube import Kube, until
from e2e.support.stream import Stream

SMALL: Final = {"requests": {"cpu": "50m"}, "limits": {"memory": "2Gi"}}
"""What two processors have room for twice, while both jobs get new workers."""


def in_each_shard(kube: Kube, installation: Installation) -> list[Stream]:
    """A small job for each shard of two, with an outside of its own."""
    made: list[Stream] = []
    for shard in (0, 1):
        name = next(name for name in iter(fresh, "") if shard_of(f"{kube.namespace}.{name}") == shard)
        made.append(
            Stream(
                kube,
                installation,
                name=name,
                words=60,
                replicas=1,
                standby=0,
                outside=f"outside-{shard}",
                extra={"workers": {"replicas": 1, "standby": 0, "resources": SMALL}},
            )
        )
    return made


def shard_of(identity: str) -> int:
    """Of two."""
    first, second = (blake2b(f"{shard}/{identity}".encode(), digest_size=8).digest() for shard in (0, 1))
    return int(second > first)


def led_by_two(installation: Installation) -> bool:
    leaders = {installation.leader(shard) for shard in (0, 1)}
    return len(leaders) == 2 and "" not in leaders


def is_coordinated(stream: Stream) -> None:
    """Whoever leads it decides on a recovery."""
    before = int(stream.status()["attempt"])
    faults.kill_worker(stream)
    recovered = lambda: int(stream.status()["attempt"]) > before  # noqa: E731
    until(f"{stream.name} has recovered", recovered, 120)
    stream.wait_flowing(120)
