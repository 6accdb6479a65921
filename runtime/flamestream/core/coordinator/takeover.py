"""Takeover: who makes up the next layout, or that it is better to wait a little.

Survivors stay. A lost worker's place goes to whoever is there: a standby, or its own relaunch. If nobody is,
the caller waits for a relaunch; when it has waited long enough the survivors take all. While the image changes some
may be of another release than others, with other messages: only those of one make up a layout.

Keeps: nobody but connected workers is chosen, never more than `places`, and all of one vocabulary. Does not: say how
long to wait (coordinator.py), or which slots go where (assignment.py).
"""

from collections.abc import Callable, Sequence

from flamestream.model.ids import WorkerId


def of_one_release(
    survivors: Sequence[WorkerId],
    spares: Sequence[WorkerId],
    places: int,
    vocabulary: Callable[[WorkerId], str],
) -> tuple[list[WorkerId], list[WorkerId]]:
    """Survivors and spares that know the same messages: those who fill most of the places. Of two releases that fill as
    many, the one with most survivors, so that an image that changes moves nothing before the old workers leave."""
    known = {worker: vocabulary(worker) for worker in (*survivors, *spares)}

    def merits(one: str) -> tuple[int, int]:
        mine = [worker for worker in known if known[worker] == one]
        return min(len(mine), places), len({*mine} & {*survivors})

    chosen = max(known.values(), key=merits, default="")
    return (
        [worker for worker in survivors if known[worker] == chosen],
        [worker for worker in spares if known[worker] == chosen],
    )


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
