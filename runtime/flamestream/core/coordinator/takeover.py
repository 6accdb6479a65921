"""Takeover: who makes up the next layout, or that it is better to wait a little.

Survivors stay. A lost worker's place goes to whoever is there: a standby, or its own relaunch. If nobody is,
the caller waits for a relaunch; when it has waited long enough the survivors take all.

Keeps: nobody but connected workers is chosen, and never more than `places`. Does not: say how long to wait
(coordinator.py), or which slots go where (assignment.py).
"""

from collections.abc import Sequence

from flamestream.model.ids import WorkerId


def successors(
    before: int, survivors: Sequence[WorkerId], spares: Sequence[WorkerId], places: int, *, waited: bool
) -> list[WorkerId]:
    """The members of the next layout; empty: wait.

    `before` workers made up the last one, `survivors` of them are connected; `places` is how many the job
    wants. With survivors it is enough to replace who was lost; a fresh start waits for a full house.
    """
    chosen = [*survivors[:places], *spares[: max(0, places - len(survivors))]]
    enough = min(before, places) if survivors else places
    return chosen if waited or len(chosen) >= enough else []
