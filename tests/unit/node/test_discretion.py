"""What leaves a worker: users' data only where the status is their owner's alone."""

import pytest

from flamestream.core.protocol.messages import Failed, Refused
from flamestream.model.ids import NO_FENCE, Epoch
from flamestream.model.quoted import BEGIN, END, plain, public, quoted
from flamestream.node.discretion import Discretion

FAILED = Failed(NO_FENCE, "user", f"sink out: table t does not take the row {quoted('{secret}')}: too long")


def test_on_a_cluster_it_is_in_the_log_once_and_in_no_message(caplog: pytest.LogCaptureFixture) -> None:
    private = Discretion(private=True)
    for _ in range(3):
        told = private.about(FAILED)
        assert isinstance(told, Failed)
        assert told.message == "sink out: table t does not take the row (see the worker's log): too long"
    (line,) = caplog.records
    assert line.__dict__["whole_message"] == "sink out: table t does not take the row {secret}: too long"


def test_on_one_machine_it_stands_where_it_did(caplog: pytest.LogCaptureFixture) -> None:
    told = Discretion(private=False).about(FAILED)
    assert (
        isinstance(told, Failed)
        and told.message == "sink out: table t does not take the row {secret}: too long"
    )
    assert not caplog.records


def test_any_word_to_the_coordinator_is_looked_at() -> None:
    refused = Refused(NO_FENCE, Epoch(1), f"sink out: {quoted('secret')}; another")
    told = Discretion(private=True).about(refused)
    assert isinstance(told, Refused) and told.reason == "sink out: (see the worker's log); another"


@pytest.mark.parametrize(
    "data",
    [
        "",
        "secret",
        f"se{END}cret",
        f"{BEGIN}secret{END}{END}",
        f"{END}secret{BEGIN}",
        "line\nsecret\u2029secret",
        "secret" * 10_000,
    ],
)
def test_data_cannot_end_its_own_mark(data: str) -> None:
    message = f"before {quoted(data)} behind"
    assert public(message) == "before (see the worker's log) behind"
    assert plain(message) == f"before {data.replace(BEGIN, '').replace(END, '')} behind"
    for cut in range(len("before ") + 1, min(len(message), 40)):
        assert "secret" not in public(message[:cut]), "a message that was cut within a mark"
