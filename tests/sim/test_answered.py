"""Transactions that answers of the outside begin, through crashes: what they see and leave is what a serial execution
of the answers that were journalled gives, and what was held is settled once."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from random import Random
from typing import Any, cast

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol.actions import Bundle
from flamestream.model import payload as codec
from flamestream.model.ids import SinkName
from flamestream.model.kernel import kernel
from flamestream.model.meta import Meta, time_of_meta
from flamestream.simulation.jobs.answered import BANK, answered_again_job, answered_job
from flamestream.simulation.settings import Adjust, promising
from flamestream.simulation.simulator import Timing
from flamestream.testing import simulate
from sim.variants.queries import LATE_ANSWERS
from support.seeds import chunks


class Changes:
    """The changes of all accounts, as a consumer takes them."""

    def __init__(self) -> None:
        self._by_meta: dict[bytes, tuple[str, int, int]] = {}

    def taken(self, now: int, sink: SinkName, bundle: Bundle) -> None:
        for meta, change in codec.decode_items(bundle.items) if sink == "balances" else ():
            account, amounts = cast("tuple[str, str]", change)
            before, after = map(int, amounts.split())
            self._by_meta[meta] = account, before, after

    def judge(self) -> None:
        """Each goes on from the one before it, and those of a run leave all amounts together what they were."""
        amounts = Counter[str]()
        for _, changes in groupby(sorted(self._by_meta.items()), lambda each: time_of_meta(Meta(each[0]))):
            for _, (account, before, after) in changes:
                assert amounts[account] == before
                amounts[account] = after
            assert sum(amounts.values()) == 0
            assert all(amount >= 0 or account == BANK for account, amount in amounts.items())


def covered(seeds: Iterable[int], adjust: Adjust | None = None, **how: Any) -> Counter[str]:
    """How often what happened in the schedules of these seeds, whose sums are right."""
    found = Counter[str]()
    for seed in seeds:
        changes = Changes()
        timing = Timing(lambda events, actions: 0, changes.taken)
        result = simulate(seed, job=answered_job(Random(seed)), adjust=adjust, timing=timing, **how)
        found += result.coverage + Counter({"delivered": result.delivered, result.outcome: 1})
        if result.outcome == "completed":
            changes.judge()
    return found


def missing(found: Counter[str], *kinds: str) -> Iterator[str]:
    """Those that have never happened."""
    return (kind for kind in kinds if not found[kind])


@pytest.mark.parametrize("first", chunks(0, 180, 15, at_push=15))
def test_outcomes_are_those_of_a_serial_execution_and_sums_hold_whatever_crashes(first: int) -> None:
    found = covered(range(first, first + 15))
    assert found["completed"] > 10
    assert found["delivered"] > 800
    kinds = ("service.never", "service.error", "service.asked again", "journal.replayed", "epoch.committed")
    assert not list(missing(found, *kinds))


def test_so_they_are_where_workers_are_replaced_and_do_not_know_it() -> None:
    """Somebody else takes over what they have asked for; clients ask both for balances, too."""
    found = covered(range(8), LATE_ANSWERS)
    assert found["completed"] > 6
    kinds = ("fault.WORKER_PAUSE", "standby.took over warm", "journal.zombie append refused", "query.strict")
    assert not list(missing(found, *kinds))


@pytest.mark.parametrize("guarantee", ["strong-productions", "exactly-once-2pc", "at-least-once"])
def test_so_they_are_wherever_answers_are_journalled(guarantee: str) -> None:
    assert covered(range(4), promising(guarantee))["delivered"] > 100


def test_an_attempt_that_begins_anew_has_answers_of_its_own() -> None:
    begun = Counter[str]()
    for seed in range(4):
        begun += simulate(seed, adjust=promising("none"), job=answered_again_job(Random(seed))).coverage
    assert begun["job.began anew"] > 2


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
def test_the_kernel_takes_the_same_steps() -> None:
    assert kernel is not None
    for seed in range(20, 25):
        one, other = (
            simulate(seed, job=answered_job(Random(seed)), parts=parts).trace_hash
            for parts in (REFERENCE, native(kernel))
        )
        assert (seed, other) == (seed, one)
