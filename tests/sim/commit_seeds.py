"""The seeds of this commit: besides those that never change, each commit is tried with some that nobody has
tried before.

>>> first_seed() == first_seed()
True
"""

import subprocess
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "runtime" / "flamestream" / "core"
SHARES = {"exactly-once": 90, "exactly-once-2pc": 40, "at-most-once": 20, "at-least-once": 30, "none": 20}
"""How many seeds of each guarantee."""


def first_seed() -> int:
    """Of the commit's hash; where there is no git, of the engine's sources."""
    return int(_commit() or _sources(), 16)


def told() -> str:
    """For the head of a test run: how to run them again."""
    first, count = first_seed(), sum(SHARES.values())
    commands = " and ".join(
        f"--guarantee {guarantee} --seeds {seeds.start}:{seeds.stop}" for guarantee, seeds in shares().items()
    )
    return f"simulator: {count} seeds of this commit, from {first} on; again: flamestream simulate {commands}"


def shares() -> dict[str, range]:
    """The seeds of each guarantee."""
    first, found = first_seed(), {}
    for guarantee, count in SHARES.items():
        found[guarantee] = range(first, first + count)
        first += count
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
