"""The status of a job with calls: how many requests wait."""

from flamestream.job.status import JobStatus, WorkerFigures
from flamestream.model.ids import SourceName

PRICED, SENT = SourceName("priced()"), SourceName("sent()")


def test_requests_that_wait_are_those_of_all_workers() -> None:
    workers = [
        WorkerFigures(worker="a", connected=True, waiting={PRICED: 3, SENT: 0}),
        WorkerFigures(worker="b", connected=True, waiting={PRICED: 4, SENT: 0}),
    ]
    status = JobStatus(job="j", pid=1, updated=0, phase="running", workers=workers)
    assert status.waiting == {PRICED: 7, SENT: 0}
