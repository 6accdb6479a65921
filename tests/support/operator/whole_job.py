"""The coordinators of one job that is whole and gives results: what a drill asks of an operator's hosting.

Does not: coordinate.
"""

from collections.abc import Sequence

from flamestream.job.status import JobStatus, WorkerFigures
from flamestream_operator.coordination.hosting import ConnectedWorker


class Coordinators:
    """Of one job that is whole, and gives results while `flows`."""

    def __init__(self) -> None:
        self.attempt = self.count = 1
        self.flows = True
        self.ips = ["10.0.0.1", "10.0.0.2"]

    def status(self, job: str) -> JobStatus:
        self.count += self.flows
        workers = [
            WorkerFigures(worker=f"w{number}", connected=True, memory=1, bundles=self.count)
            for number in range(len(self.ips))
        ]
        return JobStatus(
            job=job,
            pid=1,
            updated=0,
            phase="running",
            attempt=self.attempt,
            workers=workers,
            epoch=self.count,
            cut_time=self.count,
        )

    def members(self, job: str) -> Sequence[ConnectedWorker]:
        return [ConnectedWorker(f"w-{ip}", f"{ip}:1", 1e9, False, True) for ip in self.ips]
