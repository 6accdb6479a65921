"""Opening a rolling sink under a fence: a log of one's own, a seal on every older one, and the last bundle of
each slot.

Keeps: when `opened` returns, nothing older can be acknowledged any more, and what counts of it is what was
found. Does not: make parts (rolling.py does, later, so that a recovery does not wait for it).
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import msgspec

from flamestream.connectors.rolling.chain import Chain, Opened, State
from flamestream.connectors.rolling.segments import Seal, Segment, encode, found, listed, name_of, segment_at
from flamestream.fenced.log import Delivered
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import Fence, Slot, WorkerId
from flamestream.ports import ObjectStore

OWNER: Final = "_flamestream/sink.json"
FORMAT: Final = 1
AT_ONCE: Final = 8
"""Requests under way while older logs are sealed and last bundles are read."""
LOOKS: Final = 20


class Owner(msgspec.Struct, frozen=True):
    """Whose place it is, and what its files are."""

    version: int
    job: str
    sink: str
    format: str
    type: str | None


@dataclass(frozen=True, slots=True)
class Opening:
    """A log that a worker has opened."""

    log: int
    first: bool
    """Nobody opened under this fence before: older logs are this worker's to close."""
    last: dict[Slot, Delivered]


def claim(store: ObjectStore, mine: Owner) -> None:
    """Raises UserError if the place is another sink's, or was begun with other settings."""
    if store.put_new(OWNER, msgspec.json.encode(mine)):
        return
    there = owner(store)
    if there != mine:
        raise UserError(
            f"this place holds the output of {_said(there)}, and this is {_said(mine)}; give it a path of "
            "its own, or the old settings"
        )


def _said(one: Owner) -> str:
    return f"job {one.job!r}, sink {one.sink!r} (format {one.format}, type {one.type}, version {one.version})"


def owner(store: ObjectStore) -> Owner:
    """Whose place it is. Raises Corrupt if it is no rolling sink's."""
    data = found(store, OWNER)
    if data is None:
        raise Corrupt(f"there is no {OWNER}: is this the path of a rolling sink, and has the job run?")
    try:
        return from_json(data, Owner)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{OWNER} is not of a FlameStream sink: {error}; is this the right path?") from error


def opened(chain: Chain, fence: Fence, writer: WorkerId, slots: Sequence[Slot]) -> Opening:
    """Fence everything older. Raises Fenced if there is something newer."""
    first = False

    def decide(state: State) -> Opened:
        nonlocal first
        if state.newest > fence:
            newest = state.newest
            taken = (
                f"attempt {newest.attempt} (layout {newest.layout}) has taken over from {fence.attempt} "
                f"({fence.layout})"
            )
            raise Fenced(taken)
        # The last call's counts: if somebody else's decision comes first, this is asked again.
        first = state.newest < fence
        return Opened(fence, writer)

    chain.refresh()
    chain.check_end()
    log = chain.append(decide)
    return Opening(log, first, _last_bundles(chain, log, fence, writer, slots))


def sealed(chain: Chain, logs: Iterable[int], by: Fence) -> dict[int, int]:
    """Seal these. The seal's number of each that is not closed."""
    ends: dict[int, int] = {}
    todo = list(logs)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(LOOKS):
            absorbed = {log: open_log.absorbed for log, open_log in chain.refresh().logs.items()}
            todo = [log for log in todo if log in absorbed]
            found = pool.map(
                lambda log, behind: _seal(chain.store, log, behind, by), todo, [absorbed[log] for log in todo]
            )
            ends.update(zip(todo, found, strict=True))
            still = chain.refresh().logs
            # void: see the package's docstring
            todo = [log for log in ends if log in still and ends[log] <= still[log].absorbed]
            if not todo:
                return {log: end for log, end in ends.items() if log in still}
    raise Corrupt(f"logs {todo} cannot be sealed: does another job write to this path?")


def _seal(store: ObjectStore, log: int, absorbed: int, by: Fence) -> int:
    # Only where to begin: a number that the listing lacks is found because it cannot be created.
    number = max([absorbed + 1, *listed(store, log)])
    while not isinstance(segment_at(store, log, number), Seal):
        # (!) Creation decides the race with the log's owner: the delivery is there and counts, or the seal
        # is, and its creation fails.
        if store.put_new(name_of(log, number), encode(Seal(by))):
            break
        if not isinstance(segment_at(store, log, number), Seal):
            number += 1
    return number


def older(state: State, log: int, fence: Fence, writer: WorkerId) -> list[int]:
    """Logs that nobody may write to any more: of older fences, and this worker's own earlier ones."""
    return [
        n
        for n, other in state.logs.items()
        if n < log and (other.fence < fence or (other.fence == fence and other.writer == writer))
    ]


def _last_bundles(
    chain: Chain, log: int, fence: Fence, writer: WorkerId, slots: Sequence[Slot]
) -> dict[Slot, Delivered]:
    """The last bundle of each slot that has one. Looks again if parts are made meanwhile, which takes
    segments away."""
    for _ in range(LOOKS):
        ends = sealed(chain, older(chain.state, log, fence, writer), fence)
        state = chain.state
        last = {slot: state.last[slot] for slot in slots if slot in state.last}
        whole = True
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for bundles in pool.map(
                lambda n, state=state, ends=ends: _newest(
                    chain.store, n, state.logs[n].absorbed, ends[n] - 1, set(slots)
                ),
                ends,
            ):
                whole = whole and bundles is not None
                for bundle in bundles or ():
                    if bundle[0] not in last or last[bundle[0]][1] < bundle[1]:
                        last[bundle[0]] = bundle
        if whole:
            return last
        # A segment is gone: either into a part, and then the chain has grown, or it is lost.
        before = state.index
        if chain.refresh().index == before:
            raise Corrupt(
                f"segments of the logs {sorted(ends)} are missing that no part has; "
                "restore them from a backup"
            )
    raise Corrupt(
        "parts are made faster than the last bundles can be read; does another job write to this path?"
    )


def _newest(
    store: ObjectStore, log: int, absorbed: int, newest: int, slots: set[Slot]
) -> list[Delivered] | None:
    """Last bundles among the segments behind `absorbed`; None if one is gone."""
    if newest <= absorbed:
        return []
    segment = segment_at(store, log, newest)
    if not isinstance(segment, Segment):
        return None
    wanted = {slot: number for slot, number in segment.newest.items() if slot in slots and number > absorbed}
    bundles: list[Delivered] = []
    for number in sorted(set(wanted.values())):
        one = segment if number == newest else segment_at(store, log, number)
        if not isinstance(one, Segment):
            return None
        bundles += [bundle for bundle in one.bundles if wanted.get(bundle[0]) == number]
    return bundles
