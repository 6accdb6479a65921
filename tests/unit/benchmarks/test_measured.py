"""What a run's figures count from: when a document was due, whatever let it leave later."""

from pathlib import Path

import pytest
from harness.job import Settings, manifest, measured

DUE = [0.0, 0.02, 0.04, 0.06]


def reports(sent: list[float], last: list[float]) -> tuple[dict[str, object], dict[str, object]]:
    """What the producer and the consumer of four documents with one change each tell."""
    numbers = range(len(DUE))
    received = {
        "last": {str(i): last[i] for i in numbers},
        "counts": {str(i): 1 for i in numbers},
        "disorder": 0,
        "deliveries": last,
    }
    return {"due": DUE, "sent": sent, "expected": [1] * len(DUE)}, received


def test_a_system_that_holds_the_producer_up_pays_for_all_that_stood_behind() -> None:
    held = [0.0, 1.0, 1.001, 1.002]
    outcome = measured(*reports(held, [at + 0.002 for at in held]), warm_up=0)
    assert outcome.latencies == pytest.approx([2, 982, 963, 944])
    assert outcome.row()["late_ms"] == pytest.approx(980)


def test_a_producer_on_time_is_not_late() -> None:
    outcome = measured(*reports(DUE, [at + 0.002 for at in DUE]), warm_up=0)
    assert outcome.latencies == pytest.approx([2, 2, 2, 2])
    assert outcome.row()["late_ms"] == 0


def test_the_job_is_measured_with_the_product_s_defaults(tmp_path: Path) -> None:
    spec = manifest(Settings(), tmp_path, 1, 2)["spec"]
    assert spec["journal"].get("fsync", True) is True
    assert Settings(fsync=False) != Settings()
