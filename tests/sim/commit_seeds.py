"""The seeds of this commit: besides those that never change, each commit is tried with some that nobody has
tried before.

>>> first_seed() == first_seed()
True
"""

import subprocess
from hashlib import sha256
from pathlib import Path

from flamestream.simulation.kinds import KINDS

ROOT = Path(__file__).parents[2]
CORE = ROOT / "runtime" / "flamestream" / "core"
ANY = {"exactly-once": 45, "exactly-once-2pc": 25, "at-most-once": 15, "at-least-once": 20, "none": 15}
"""How many seeds of each guarantee draw all of their jobs."""
OF_KIND = 5
"""How many there are of each other kind."""
Turn = tuple[str, str]
"""A kind and a guarantee."""


def first_seed() -> int:
    """Of the commit's hash; where there is no git, of the engine's sources."""
    return int(_commit() or _sources(), 16)


def told() -> str:
    """For the head of a test run: how to run them again."""
    found = shares()
    commands = " and ".join(
        f"--kind {kind} --guarantee {guarantee} --seeds {seeds.start}:{seeds.stop}"
        for (kind, guarantee), seeds in found.items()
    )
    count = sum(map(len, found.values()))
    return f"simulator: {count} seeds of this commit, from {first_seed()} on; again: flamestream simulate {commands}"


def shares() -> dict[Turn, range]:
    """The seeds of each kind: most of those that seeds draw whole, and some of each other under a guarantee that is
    the commit's."""
    first, found = first_seed(), dict[Turn, range]()
    for guarantee, count in ANY.items():
        found["any", guarantee] = range(first, first + count)
        first += count
    for kind in [each for each in KINDS if each != "any"]:
        guarantee = KINDS[kind].guarantees[first % len(KINDS[kind].guarantees)]
        found[kind, guarantee] = range(first, first + OF_KIND)
        first += OF_KIND
    return found


def _commit() -> str:
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()[:8]


def _sources() -> str:
    return sha256(b"".join(path.read_bytes() for path in sorted(CORE.glob("*.py")))).hexdigest()[:8]
