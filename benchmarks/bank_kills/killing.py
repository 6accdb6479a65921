"""Kills of a job's workers, one after the other, and of its launcher with everything in it, by SIGKILL."""

from collections import Counter
from itertools import cycle
from typing import Final

from bank_kills.beside import Beside
from support.processes import kill
from support.runs.cli_job import CliJob

TURNS: Final = ("worker", "worker", "worker", "worker", "launcher")


class Killing(Beside):
    """Strikes when everything runs again."""

    def __init__(self, job: CliJob, spacing: float) -> None:
        super().__init__()
        self.pause = spacing
        self.kills = Counter[str]()
        self._job, self._turns = job, cycle(TURNS)

    def turn(self) -> None:
        status, who = self._job.running(), next(self._turns)
        if who == "launcher":
            assert self._job.launcher is not None
            kill(self._job.launcher.pid)
            self._job.launcher.wait()
            self._job.start()
        else:
            names = [worker.worker for worker in status.workers]
            found = self._job.run_folder.worker(names[self.kills[who] % len(names)])
            if found is None or not found.alive:
                return
            kill(found.pid)
        self.kills[who] += 1
