"""Every part of a running job is taken away, one after another; after each the output is still a prefix of
the reference, byte for byte."""

import os
import time
from collections.abc import Callable

import pytest

from e2e.support import faults
from e2e.support.stream import Stream

Report = Callable[..., None]
SETTLED = 6.0
"""Seconds without a fault after which a gap is over, or the job is broken."""


def broken(
    stream: Stream, report: Report, what: str, fault: Callable[[], None], wait: float = SETTLED
) -> float:
    """Do it, and audit: the longest pause between two deliveries from then on, in milliseconds."""
    stream.wait_ready(180)
    stream.wait_whole()
    stream.wait_flowing()
    since = stream.state()["now"]
    fault()
    time.sleep(wait)
    stream.wait_flowing(120)
    gap = stream.ask(f"/gap?since={since}")
    verdict = stream.ask("/audit")
    figures = {name: verdict[name] for name in ("clean", "items", "documents")}
    report(what, gap_ms=gap["gap_ms"], **figures, longest=gap["longest"])
    assert verdict["clean"], verdict
    return float(gap["gap_ms"])


@pytest.mark.parametrize(
    "again", [pytest.param(0, marks=pytest.mark.ci), *range(1, int(os.environ.get("E2E_KILLS", "3")))]
)
def test_a_killed_worker_process_costs_no_item(stream: Stream, report: Report, again: int) -> None:
    broken(stream, report, f"worker process killed ({again + 1})", lambda: faults.kill_worker(stream))


def test_a_killed_daemon_costs_no_item(stream: Stream, report: Report) -> None:
    broken(stream, report, "Python daemon killed", lambda: faults.kill_daemon(stream))


def test_a_paused_worker_comes_back_as_a_zombie_and_changes_nothing(stream: Stream, report: Report) -> None:
    broken(stream, report, "worker process stopped 6 s, then continued", lambda: faults.pause_worker(stream))


def test_a_deleted_executor_pod_costs_no_item(stream: Stream, report: Report) -> None:
    broken(stream, report, "executor pod deleted (as by a drain)", lambda: faults.delete_executor(stream))


def test_a_pod_deleted_by_force_costs_no_item(stream: Stream, report: Report) -> None:
    broken(stream, report, "executor pod deleted by force", lambda: faults.force_delete_executor(stream))


def test_a_killed_leader_delays_no_output(stream: Stream, report: Report) -> None:
    before = stream.installation.life()
    broken(stream, report, "operator leader killed", lambda: faults.kill_leader(stream), wait=10)
    assert stream.installation.life() != before, "somebody else leads, or the same pod began again"


def test_an_executor_killed_while_nobody_leads_costs_no_item(stream: Stream, report: Report) -> None:
    broken(
        stream,
        report,
        "executor killed while the leader is dead",
        lambda: faults.kill_leader_and_executor(stream),
        wait=15,
    )


def test_zookeeper_may_be_away(stream: Stream, report: Report) -> None:
    broken(
        stream, report, "ZooKeeper away for 30 s", lambda: faults.away(stream.installation, "zookeeper", 30)
    )


def test_s3_may_be_away(stream: Stream, report: Report) -> None:
    broken(stream, report, "S3 away for 30 s", lambda: faults.away(stream.installation, "s3", 30))


def test_a_killed_driver_costs_no_item(stream: Stream, report: Report) -> None:
    broken(
        stream,
        report,
        "driver pod deleted by force (one application)",
        lambda: faults.delete_driver(stream),
        wait=20,
    )
