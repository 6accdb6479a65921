"""Histories of simulated banks, through crashes, are strictly serializable: porcupine says so, which knows nothing of
times, cuts or workers, and sees what breaks where a rule is taken away."""

from collections import Counter
from collections.abc import Iterable

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.model.kernel import kernel
from flamestream.simulation.clients import asked
from flamestream.simulation.faults import Fault
from flamestream.simulation.settings import Adjust, promising
from sim.variants import queries, tables
from sim.variants.queries import asking
from sim.variants.variant import BrokenVariant
from support.histories.history import Operation, verdict
from support.histories.simulated import recorded
from support.seeds import chunks

ZOMBIES = asking(Fault.WORKER_PAUSE, spacing=2_000, workers=1, standbys=2, asks_every=3_000)


def judged(
    seeds: Iterable[int], adjust: Adjust, parts: Parts = REFERENCE, *, retracted: bool = False
) -> Counter[str]:
    """How many operations of each kind were in histories that are all right."""
    found = Counter[str]()
    for seed in seeds:
        record, failure = recorded(seed, adjust, parts=parts, retracted=retracted)
        assert failure is None, failure
        operations = record.operations()
        said = verdict(operations)
        assert said.word == "Ok", f"seed {seed}: {said}"
        found += Counter(map(_kind, operations))
    return found


def _kind(operation: Operation) -> str:
    return operation.outcome or ("put" if operation.puts else operation.session)


@pytest.mark.parametrize("first", chunks(0, 500, 10, at_push=10))
def test_receipts_and_answers_are_those_of_one_order_whatever_crashes(first: int) -> None:
    found = judged(range(first, first + 10), asked)
    assert all(found[kind] > 15 for kind in ("committed", "refused", "strict", "stale")), found


@pytest.mark.parametrize("guarantee", ["strong-productions", "exactly-once-2pc", "at-least-once"])
def test_so_they_are_wherever_what_was_shown_stays(guarantee: str) -> None:
    assert judged(range(3), promising(guarantee, asked))["committed"] > 10


def test_so_they_are_from_workers_that_were_replaced_and_do_not_know_it() -> None:
    found = judged(range(6), ZOMBIES)
    assert found["strict"] > 30, found


@pytest.mark.parametrize("first", chunks(0, 120, 6, at_push=6))
@pytest.mark.parametrize("adjust", [asked, ZOMBIES])
def test_so_they_are_of_transfers_that_are_taken_back_and_of_an_index(adjust: Adjust, first: int) -> None:
    """Who is found in the index has as much as it says."""
    found = judged(range(first, first + 6), adjust, retracted=True)
    assert all(found[kind] > 15 for kind in ("committed", "refused", "strict", "stale")), found


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
def test_so_they_are_with_the_kernel() -> None:
    assert kernel is not None
    found = judged(range(4), asked, native(kernel)) + judged(range(3), asked, native(kernel), retracted=True)
    assert all(found[kind] > 15 for kind in ("committed", "refused", "strict", "stale")), found


def variant(name: str) -> BrokenVariant:
    """The one of this name."""
    return next(each for each in queries.VARIANTS + tables.VARIANTS if each.name == name)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("strict answers without a proof", 3),
        ("repair that ends at a reader", 333),
        *(
            pytest.param(each, 0, marks=pytest.mark.slow)
            for each in ("strict answers at once behind a recovery", "repair before the next writer")
        ),
    ],
)
def test_without_a_rule_a_history_is_refused(name: str, first: int) -> None:
    """`first` is one that was seen to be refused: those before it take long, and show nothing."""
    assert refused(variant(name), range(first, first + 100), retracted=False)


@pytest.mark.parametrize(
    ("name", "first"),
    [("strict answers without a proof", 11), ("answers of rows that may still be taken back", 37)],
)
def test_so_it_is_of_transfers_that_are_taken_back(name: str, first: int) -> None:
    assert refused(variant(name), range(first, first + 100), retracted=True)


def refused(broken: BrokenVariant, seeds: Iterable[int], *, retracted: bool) -> bool:
    """Whether a history of these shows that a rule is missing."""
    histories = (
        recorded(seed, broken.adjust or asked, broken=broken.broken, retracted=retracted)[0] for seed in seeds
    )
    return any(verdict(each.operations()).word == "Illegal" for each in histories)
