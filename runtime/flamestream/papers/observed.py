"""Whole jobs of the simulator, as their consumer sees them: real workers and coordinators, of which a worker
is killed between two results.

    two fronts, a letter each in turn -> concatenated -> one sink          `letters_job`
    the same, behind it a coin that is thrown anew when a worker is lost   `coin_job`

Keeps: what is lost is one worker, and nothing is committed before, so all that left is computed again. Does
not: judge (without_journal.py, coin.py).
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from flamestream.core.protocol.actions import Bundle
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import Partition, SinkName
from flamestream.model.time import FrontId, Timestamp
from flamestream.simulation.drift import Drift
from flamestream.simulation.faults import Fault, FaultPlan, Moment
from flamestream.simulation.graphs import SimJob, same, spread
from flamestream.simulation.outside.producers import SimRecord, SourceSite
from flamestream.simulation.settings import MS, Adjust, Plan, promising
from flamestream.simulation.simulator import Result, Timing, simulate
from flamestream.simulation.world import EPOCH_START

LETTERS: Final = ("aceg", "bdfh")
"""The input of each front."""
FIRST, BETWEEN = EPOCH_START + 30 * MS, 2 * MS
"""When the first letter can be read, and how long after it the next."""
WORKERS: Final = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """The items that a consumer was given, in order, and how the job ended."""

    items: tuple[tuple[bytes, str], ...]
    """(meta, value)."""
    result: Result

    @property
    def values(self) -> list[str]:
        """The values of the items, without their metas."""
        return [value for _, value in self.items]


def observed(seed: int, job: SimJob, guarantee: str, *faults: Fault) -> Seen:
    """Simulate `job` with a worker killed, and `faults` at the same moment."""
    items: list[tuple[bytes, str]] = []

    def taken(_now: int, _sink: SinkName, bundle: Bundle) -> None:
        items.extend((meta, payload[1]) for meta, payload in codec.decode_items(bundle.items))

    timing = Timing(charge=lambda events, actions: 0, taken=taken)
    result = simulate(seed, job=job, adjust=promising(guarantee, killed(*faults)), timing=timing)
    return Seen(tuple(items), result)


def killed(*faults: Fault, letters: bool = True) -> Adjust:
    """A worker is killed between two letters, and nothing else goes wrong. Without `letters` the job's own
    input stays."""

    def adjust(rng: Random, plan: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        at = FIRST + rng.randrange(3 * BETWEEN, 6 * BETWEEN)
        chosen.rates, chosen.moments = {}, [Moment(at, fault) for fault in (Fault.WORKER_CRASH, *faults)]
        # No commit comes between: whatever left before the crash is computed again behind it.
        coordinator = replace(plan.coordinator, workers=WORKERS, interval_us=400 * MS)
        plain = replace(
            plan, coordinator=coordinator, workers=WORKERS, standbys=0, stop_at=None, edited=False,
            parquet=False, encode=False,
        )  # fmt: skip
        return (_with_letters(plain) if letters else plain), chosen

    return adjust


def _with_letters(plan: Plan) -> Plan:
    fronts = tuple(replace(front, timed=False, run_length=1, replayable=True) for front in plan.worker.fronts)
    sites = [
        SourceSite(
            FrontId(front),
            timed=False,
            replayable=True,
            partitions={Partition("p0"): _records(front, letters)},
        )
        for front, letters in enumerate(LETTERS)
    ]
    return replace(plan, sites=sites, worker=replace(plan.worker, fronts=fronts))


def _records(front: int, letters: str) -> list[SimRecord]:
    moments = (FIRST + (2 * place + front) * BETWEEN for place in range(len(letters)))
    return [SimRecord(("", letter), at, Timestamp(at)) for letter, at in zip(letters, moments, strict=True)]


def letters_job() -> SimJob:
    """Letters of two fronts are appended to one string."""
    graph, appended = _appended("letters")
    appended.sink("out", key=_nowhere)
    return _job(graph)


def coin_job() -> SimJob:
    """Behind the string stands a coin that nobody was told of."""
    graph, appended = _appended("coin")
    coin = Drift()
    appended.map(coin.marked).sink("out", key=_nowhere)
    return replace(_job(graph), drift=coin)


def _appended(name: str) -> tuple[Graph, Any]:
    graph = Graph(name)
    letters = graph.source("s0").merge(graph.source("s1")).balance(spread).map(same)
    return graph, letters.reduce(key=_nowhere, initial=str, combine=_append, emit=_result)


def _job(graph: Graph) -> SimJob:
    # One partition a front, and no front more than sources.
    return SimJob(
        graph, None, lambda rng, number: ("", "?"), len(LETTERS), one_partition=True, journalled=True
    )


def _append(text: str, letter: tuple[str, str]) -> str:
    return text + letter[1]


def _result(text: str, _letter: tuple[str, str]) -> tuple[str, str]:
    return "", text


def _nowhere(_payload: Any) -> str:
    """The same key for every payload."""
    return ""
