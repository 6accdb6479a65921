"""One job's coordinator, as a thread beside the loop reads it."""

from types import SimpleNamespace

import pytest

from flamestream.core.coordinator.coordination import Settings, Status
from flamestream.model.ids import WorkerId
from flamestream.net.acceptor import listen
from flamestream.net.control_link import ControlListener
from flamestream_operator.coordination.hosted import Hosted
from flamestream_operator.coordination.hosting import ConnectedWorker, JobToCoordinate
from support.loops import reactor

JOB = JobToCoordinate(
    settings=Settings(job="ns.j", graph="", python="", workers=1, fronts=1), token="t", store="/nowhere"
)


def test_a_coordinator_that_is_let_go_while_it_is_read_is_read_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was fenced: the loop's thread makes room for its successor."""
    worker = WorkerId("w")
    host = SimpleNamespace(
        look=lambda: "its status", status=Status(phase="running", workers=(worker,)), finish=None,
        is_warm=lambda worker: True,
    )  # fmt: skip

    def let_go() -> None:
        reads = iter([host])
        monkeypatch.setattr(Hosted, "_host", property(lambda _: next(reads, None)), raising=False)

    with reactor() as loop:
        listener = ControlListener(loop, listen("127.0.0.1"))
        hosted = Hosted(JOB, loop, listener, None, None, (loop, loop), lambda job: None)  # type: ignore[arg-type]
        hosted._hellos[worker] = (SimpleNamespace(address="10.0.0.1:1"), 5.0)  # type: ignore[assignment]
        let_go()
        assert hosted.status() == "its status"  # type: ignore[comparison-overlap]  # the stand-in's
        let_go()
        assert hosted.members() == (ConnectedWorker("w", "10.0.0.1:1", 5.0, standby=False),)
        listener.acceptor.close()
