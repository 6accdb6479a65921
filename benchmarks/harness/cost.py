"""What processes cost: CPU time and memory, by /proc."""

import os
from pathlib import Path


class Cost:
    """CPU time and memory of processes, by /proc."""

    def __init__(self, pids: list[int]) -> None:
        self._folders = {pid: Path(f"/proc/{pid}") for pid in pids}

    def cpu(self) -> float:
        """Seconds, of all their threads."""
        return sum(map(_seconds, self._folders.values()))

    def main(self) -> float:
        """Seconds of their first threads alone: watches, reconcilers and requests to the API server are there."""
        return sum(_seconds(folder / "task" / str(pid)) for pid, folder in self._folders.items())

    def resident(self) -> float:
        """Megabytes of the largest."""
        pages = max(int((folder / "statm").read_text().split()[1]) for folder in self._folders.values())
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _seconds(folder: Path) -> float:
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
