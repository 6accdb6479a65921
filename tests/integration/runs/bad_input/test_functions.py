"""Functions that raise, give what cannot be encoded, or are not deterministic or pure: each is named, with
the way out."""

import re
from pathlib import Path

import pytest

from flamestream.job.exit_codes import ExitCode
from flamestream.reference import ERRORS
from support.runs.cli_job import canonical
from support.runs.kills import kill_a_worker_after_more_output
from support.runs.numbers_job import Make, check, numbers, reference, snapshots, written

RUN = 64
"""Numbers that a generator's front stamps together."""
GENTLE = {"limits": {"runs": 4}}
RAISES = """if n in (2000, 2001, 3500):
        raise ValueError(f"no {n}")
    return n"""

IMPURE = """
from dataclasses import dataclass
import flamestream as fs

@fs.payload_type
@dataclass(frozen=True)
class Box:
    n: int

calls = []

def boxed(n):
    return Box(n)

def opened(box):
    BODY

graph = fs.Graph("impure")
graph.source("numbers").map(boxed).map(opened).sink("out")
"""


def test_a_function_that_raises_stops_the_job_at_an_epoch_and_a_corrected_one_goes_on_with_the_right_bytes(
    make: Make, tmp_path: Path
) -> None:
    application = numbers(tmp_path, RAISES)
    job = make(application, {"generator": {"count": 5000}})
    job.start()
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert re.search(r"app_\w+\.number raised ValueError: no 2000 \(record ", message), message
    newest = int(snapshots(job)[-1]["cut"])
    assert newest == 1 + 2000 // RUN, "the last epoch is at the run of the record"
    assert len(job.delivered("out")) == 2000 // RUN * RUN, (
        "all below the run of the record is delivered, and nothing of it"
    )
    corrected = numbers(tmp_path, "return n")
    application.write_text(corrected.read_text())
    job.start("--changed")
    check(job)
    assert canonical(job.delivered("out")) == reference(corrected, range(5000))["out"]
    assert job.audit("--changed")["clean"]


def test_what_a_function_raises_is_dead_lettered_the_same_whoever_dies(make: Make, tmp_path: Path) -> None:
    application = numbers(tmp_path, 'if n % 10 == 3:\n        raise ValueError(f"no {n}")\n    return n')
    job = make(
        application,
        {"generator": {"count": 20_000, "rate": 2000}},
        "bad",
        onError={"deadLetter": "bad"},
        **GENTLE,
    )
    wanted = reference(application, range(20_000))
    job.start()
    kill_a_worker_after_more_output(job, reads=True)
    job.running(2)
    kill_a_worker_after_more_output(job, reads=False)
    check(job)
    assert canonical(job.delivered("out")) == wanted["out"]
    assert canonical(job.delivered("bad")) == wanted[ERRORS]
    audit = job.audit()
    assert audit["clean"], audit


def test_a_payload_that_cannot_be_encoded_names_the_function_the_type_and_the_way_out(
    make: Make, tmp_path: Path
) -> None:
    job = make(
        numbers(tmp_path, "return open('/dev/null') if n == 700 else n"), {"generator": {"count": 1000}}
    )
    job.start()
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert re.search(r"app_\w+\.number raised PayloadError: .*TextIOWrapper", message), message
    assert re.search(r"payload_type|use ", message), message


def test_a_function_that_is_not_deterministic_is_found_at_the_replay_after_a_kill(
    make: Make, tmp_path: Path
) -> None:
    application = numbers(tmp_path, "return n + 7 * os.getpid()")
    # so that a recovery has to compute everything again
    checkpoint = {"interval": "1h", "store": "snapshots"}
    job = make(application, {"generator": {"rate": 2000}}, checkpoint=checkpoint)
    job.start()
    kill_a_worker_after_more_output(job, reads=True)
    message = check(job, "failed", ExitCode.JOB_FAILED)
    assert "sink 'out', slot " in message
    assert re.search(
        r"was delivered as \(\d+, \d+\) and is now \(\d+, \d+\)|is not computed again|was not delivered before",
        message,
    ), message
    assert "not deterministic, or changed: they must not depend on clock, randomness" in message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "calls.append(box); return box.n + len(calls)",
            "gave two results for one input: functions must not depend on clock, randomness",
        ),
        (
            "object.__setattr__(box, 'n', -1); return -1",
            "changes its input: functions must leave payloads as they are; build a new value",
        ),
    ],
)
def test_debug_mode_names_a_function_that_is_not_pure(
    make: Make, tmp_path: Path, body: str, message: str
) -> None:
    job = make(written(tmp_path, IMPURE, body), {"generator": {"count": 100}})
    job.start("--debug")
    assert re.search(rf"\S*opened {message}", check(job, "failed", ExitCode.JOB_FAILED)), job.told()
