"""The settings of a job that a worker needs besides the graph. Plain data; the shell turns the manifest into
it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flamestream.core.protocol.known_fronts import numbers_of
from flamestream.model.ids import SinkName, SourceName
from flamestream.model.time import FrontId

ERRORS: Final = SinkName("errors")
"""The sink that error items would go to: a real one under `dead_letter`, never delivered otherwise."""


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """The way in which the front `front` of source `source` stamps."""

    front: FrontId
    source: SourceName
    timed: bool
    run_length: int = 1
    """TIMED: records a run, cut at multiples of it so that a replay cuts alike."""
    replayable: bool = True
    """JOURNALLED: the source can give old records again; otherwise payloads go into the journal."""
    of_call: bool = False
    """Its records are the answers of a call of the graph, which this worker makes."""
    in_sequence: bool = False
    """Event time takes its partitions for one."""
    step: int = 1
    """TIMED: timestamps from a run to the next. In between there is room for answers of calls."""
    key: str = ""
    """The name that a snapshot finds it by, if that is not its source's."""

    @property
    def known_as(self) -> str:
        """The name that its number is found by, which others of its source have too."""
        return self.key or self.source


def numbered(fronts: tuple[FrontSettings, ...], known: Sequence[str]) -> tuple[FrontSettings, ...]:
    """Fronts in the order of a graph's sources, with the numbers that they have in a job. `known`: whose each
    number is; none: they stay."""
    if not known:
        return fronts
    numbers = numbers_of([front.known_as for front in fronts], known)
    return tuple(replace(front, front=number) for front, number in zip(fronts, numbers, strict=True))


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a job that its workers need, the same for each of them."""

    job: str
    slots: int
    fronts: tuple[FrontSettings, ...]
    python: str = ""
    code: str = ""
    """Digest of the application's files that were loaded."""
    exactly_once: bool = True
    """False (`at-least-once`, `none`): no filter by `t_last`, no comparison of a replay with what was
    delivered."""
    two_phase: bool = False
    """`exactly-once-2pc`, `at-most-once`: output waits for the commit of its epoch, whose snapshot holds
    it."""
    skips: bool = False
    """`at-most-once`: there is no journal, and a recovery goes on where the attempt before had come to."""
    durable: bool = True
    """False (`none`): no journal entries are waited for, nothing is restored."""
    remembered: bool = True
    """Every consumer says, when it is opened, what it was given. False: a recovery has only the journals to
    learn it from."""
    dead_letter: SinkName | None = None
    """The sink of error items; None: `onError: fail`."""
    calls: Mapping[str, Mapping[str, int | float | str]] = field(default_factory=dict)
    """Changes of the manifest to `model.calls.call.CallSettings`, by the call's name."""
    egress: tuple[str, ...] | None = None
    """Hosts and networks that calls may connect to; None: any."""
    credit_runs: int = 1024
    credit_bytes: int = 8 << 20
    """Bytes of input of one front that may be stamped and not settled yet."""
    delivery_items: int = 8192
    """The most items in one delivery to a sink."""
    heartbeat: int = 100_000
    """Microseconds between progress reports, if `report` is not more."""
    report: int = 0
    """Microseconds between progress reports to a coordinator that has many jobs to hear."""
    probe: int = 1_000_000
    """Microseconds between empty frames to every peer, whose sequence shows that an earlier frame was
    lost."""
    slice_size: int = 128
    """Buckets that a chore (snapshot, trimming) visits in one pass."""
    slice_bytes: int = 64 << 10
    """Bytes of rows, about, that are encoded in one pass; the last row may be greater."""
    upload_bytes: int = 16 << 20
    """Bytes of rows, about, in one upload. While one is under way only the next is encoded: this bounds what
    a snapshot takes."""
    patience: int | None = None
    """How often a transaction is decided before it waits until nothing can come below it; 0: it always waits; None: by
    what is measured."""
    judged: int = 64
    """Transactions that are judged together, where patience is by what is measured."""
    debug: bool = False
    """Run every user function twice and compare, and check that it leaves its input alone."""

    @property
    def beside_timed(self) -> frozenset[FrontId]:
        """Fronts of answers beside a timed one: they take their times from what the others have entered."""
        beside = any(front.timed for front in self.fronts)
        return frozenset(front.front for front in self.fronts if beside and front.of_call)

    @property
    def pledging(self) -> frozenset[FrontId]:
        """Journalled fronts that journal what they promise: nothing else tells the next attempt how far
        results beside a timed front had gone."""
        beside = any(front.timed for front in self.fronts) and self.durable and not self.skips
        return frozenset(
            front.front
            for front in self.fronts
            # (!) Requests have left as results have, and no consumer remembers those.
            if beside and not front.timed and (front.of_call or not self.remembered)
        )

    @property
    def clocked(self) -> frozenset[FrontId]:
        """Fronts whose stamps are the clock's."""
        return frozenset(front.front for front in self.fronts if not front.timed) - self.beside_timed
