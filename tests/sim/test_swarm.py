"""The whole engine holds its invariants for 500 seeds, and those seeds really contain every fault and every
branch of the protocol."""

import pytest

from flamestream.simulation.faults import Fault
from flamestream.testing import SwarmResult, swarm

SEEDS = range(500)
BRANCHES = """
    said.Accepted, said.Refused, said.PeerLost, said.Failed, heard.Abort, heard.Drain, heard.Committed,
    peer.Data, peer.tombstone, peer.Question, peer.Hold, peer.Cut, front.out of credit,
    worker.ReadRun, worker.Load, worker.Prefetch, worker.exit told, recovery.of a survivor, recovery.replayed,
    coordinator.adopted a running job, coordinator.fenced, coordinator.drained, coordinator.stopped, coordinator.DeleteObjects,
    epoch.committed, record.conflict, snapshot.compacted, snapshot.upload failed, store.write tried again,
    journal.replayed, journal.trimmed, journal.zombie append refused,
    consumer.repeated bundle, consumer.old bundle, consumer.open fenced, consumer.delivery fenced,
    source.open until all was through, standby.took over warm, coordinator.refused other slots,
    job.failed on a user error, job.ended on a damaged object, job.ended on a damaged journal, job.ended on lost output,
    job.failed on a function that is not deterministic
"""  # noqa: E501
WITHOUT_EFFECT = {Fault.STORE_STALE_LISTING}
"""The engine never lists, so it cannot meet it; the broken variant that lists does."""


@pytest.fixture(scope="module")
def result() -> SwarmResult:
    return swarm(SEEDS, processes=2)


def test_every_invariant_holds_at_every_event(result: SwarmResult) -> None:
    assert not result.failures, "\n".join(str(failure) for failure in result.failures)
    assert len(result.reports) == len(SEEDS)


@pytest.mark.parametrize(
    "fault", [fault for fault in Fault if fault not in WITHOUT_EFFECT], ids=lambda fault: fault.name
)
def test_the_fault_really_happened(result: SwarmResult, fault: Fault) -> None:
    assert result.coverage[f"fault.{fault.name}"] > 0


@pytest.mark.parametrize("branch", [branch.strip() for branch in BRANCHES.split(",")])
def test_the_branch_really_happened(result: SwarmResult, branch: str) -> None:
    assert result.coverage[branch] > 0
