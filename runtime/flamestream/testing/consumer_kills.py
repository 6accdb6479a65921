"""Checks of a consumer whose workers die: deliveries by processes of their own, killed with SIGKILL in the
middle.

    def test_my_sink_outlives_its_workers(tmp_path):
        check_killed_at_any_moment(MyOutside(tmp_path))

Does not: kill the server (consumer_outages.py).
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol

from flamestream.model.payload import decode_items
from flamestream.testing.consumer_contract import Outside
from flamestream.testing.delivering import item


class SpecOutside(Outside, Protocol):
    """A consumer that can be reached by a spec, from any process, as sink `out` of job `job`."""

    spec: dict[str, Any]


def check_killed_at_any_moment(outside: SpecOutside, seed: int = 1, lives: int = 6, items: int = 400) -> None:
    """Workers die by SIGKILL in the middle of deliveries; each item is taken once, in order, and none that
    was acknowledged is missing."""
    rng = random.Random(seed)
    slots = list(range(8))
    acknowledged = dict.fromkeys(slots, 0)
    for attempt in range(1, lives + 1):
        config = {"spec": outside.spec, "attempt": attempt, "slots": slots, "items": items, "seed": seed}
        last = attempt == lives
        told = _one_life(config, None if last else rng.randint(1, 25), rng.uniform(0, 0.006))
        acknowledged = {slot: max(acknowledged[slot], told.get(str(slot), 0)) for slot in slots}
    wanted = {slot: [item(slot, number) for number in range(items)] for slot in slots}
    found: dict[int, list[tuple[bytes, object]]] = {slot: [] for slot in slots}
    for slot, _, encoded in outside.taken():
        found[slot] += decode_items(encoded)
    assert acknowledged == dict.fromkeys(slots, items), (
        f"seed {seed}: the last worker did not get through: {acknowledged}"
    )
    for slot in slots:
        assert found[slot] == wanted[slot], (
            f"seed {seed}, slot {slot}: {_difference(found[slot], wanted[slot])}"
        )


def _one_life(config: dict[str, Any], deliveries: int | None, more_seconds: float) -> dict[str, int]:
    """Let a worker live for so many deliveries, and part of the next one. What it was told of last."""
    command = [sys.executable, "-m", "flamestream.testing.delivering", json.dumps(config)]
    told: dict[str, int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for count, line in enumerate(process.stdout):
            told = json.loads(line) or told
            if count == deliveries:
                time.sleep(more_seconds)  # into the delivery that is under way: where in it is the point
                process.kill()
                break
        # What it said before it died was acknowledged, so it must be there. Its last line may be torn.
        for line in process.stdout:
            told = json.loads(line) if line.endswith("}\n") else told
    assert deliveries is not None or process.returncode == 0, (
        f"the last worker ended with {process.returncode}"
    )
    return told


def _difference(found: Sequence[object], wanted: Sequence[object]) -> str:
    place = next(
        (i for i, (have, want) in enumerate(zip(found, wanted, strict=False)) if have != want),
        min(len(found), len(wanted)),
    )
    return (
        f"{len(found)} items instead of {len(wanted)}; from item {place} on {found[place : place + 3]}, "
        f"wanted {wanted[place : place + 3]}"
    )
