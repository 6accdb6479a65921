"""A job record in memory: for tests in which one process reads and writes it."""

from flamestream.ports import JobRecord


class Records:
    """`ports.JobRecords`."""

    def __init__(self) -> None:
        self._found: tuple[JobRecord, int] | None = None

    def read(self) -> tuple[JobRecord, int] | None:
        return self._found

    def compare_and_set(self, record: JobRecord, version: int | None) -> int | None:
        if (self._found[1] if self._found else None) != version:
            return None
        self._found = record, 0 if version is None else version + 1
        return self._found[1]
