"""How the launcher keeps a job's workers alive: as tasks of a Spark that it starts, or as plain processes for
tests.

Spark starts a lost task again by itself. If Spark itself is lost, with its JVM, a new one is started, with a
growing pause: the coordinator sees workers go and others come, and decides what that means.

Keeps: `ended` is called when every worker was told to stop, or with an error that nothing can be done about;
a ManifestError means that there is no room for those that were started last, and the others run on. Does not:
know what workers do, or tell them to stop.
"""

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from flamestream.job.manifest import SparkSettings as Asked
from flamestream.loop.reactor import EpollReactor
from flamestream.machine.parent_death import start_child
from flamestream.machine.process_shell import INTERPRETER
from flamestream.model.backoff import Backoff
from flamestream.model.errors import FlameStreamError, ManifestError, Retryable
from flamestream.spark.streaming.worker_main import worker_main

AGAIN: Final = Backoff(0.1, 5.0)
MAX_STARTS: Final = 100
"""A Spark that has to be started more often than this is beyond help."""
TAKEN_OVER_WITHIN: Final = 1.0
"""Seconds. Whoever takes over needs the processors that the start of a process takes."""
MORE: Final = 16
"""Tasks that a Spark of ours has room for beside, since an upgrade may want more workers than the job began with: each
costs some 150 kB."""
_MODULE: Final = "flamestream.spark.streaming.worker_main"
Ended = Callable[[FlameStreamError | None], None]


class Workers(Protocol):
    """The workers of a job, of either kind, as the launcher needs them."""

    @property
    def driver(self) -> int:
        """Pid of Spark's JVM; 0 if there is none."""
        ...

    def start(self, count: int, config: Path) -> None:
        """Start so many workers that are told `config`, beside those that run. Raises ManifestError if there
        is no room for them."""
        ...

    def running(self, config: Path) -> int:
        """How many of those that are told `config` have not ended. Of some that were started together all
        count until the last has."""
        ...

    def stop(self) -> None:
        """End those that still run."""
        ...


class SparkWorkers:
    """Workers as tasks of our own Spark: a Spark job of tasks for each start."""

    def __init__(
        self,
        reactor: EpollReactor,
        asked: Asked,
        count: int,
        folder: Path,
        python_path: tuple[Path, ...],
        ended: Ended,
    ) -> None:
        """Start Spark, for three times `count` tasks and some MORE: those that run, those that are to take over from
        them, and those that have run before. Only in the main thread."""
        # lazily: PySpark takes a while to import
        from flamestream.spark.streaming.session import SparkSettings

        self._reactor, self._ended, self._folder = reactor, ended, folder
        self._settings = SparkSettings(
            workers=3 * count + MORE,
            scratch=folder / "spark",
            master=asked.master or "",
            conf=asked.conf,
            python_path=python_path,
            name=f"flamestream {folder.name}",
        )
        self._jobs: dict[int, _SparkJob] = {}
        """The Spark jobs that have not ended."""
        self._starts = self._numbers = 0
        self._stopping = self._again_soon = False
        self._start_spark()

    @property
    def driver(self) -> int:
        return self._spark.jvm.pid

    def start(self, count: int, config: Path) -> None:
        """Start `count` tasks; behind a loss of Spark they are started once more."""
        main = partial(worker_main, config.read_bytes(), str(self._folder) if self._settings.local else "")
        self._numbers += 1
        self._jobs[self._numbers] = _SparkJob(self._free(count), count, main, config)
        self._run_tasks(self._numbers)

    def running(self, config: Path) -> int:
        return sum(job.count for job in self._jobs.values() if job.config == config)

    def stop(self) -> None:
        self._stopping = True
        self._spark.close()

    def _free(self, count: int) -> int:
        """The first of so many indexes that no worker has."""
        taken = {job.first + place for job in self._jobs.values() for place in range(job.count)}
        first = 0
        while not taken.isdisjoint(range(first, first + count)):
            first += 1
        return first

    def _start_spark(self) -> None:
        from flamestream.spark.streaming.session import SparkDriver

        self._starts += 1
        # Here, in the main thread, which the JVM ends with (parent_death.py): only what waits for it is in a
        # helper.
        self._spark = SparkDriver(self._settings)

    def _run_tasks(self, job: int) -> None:
        from flamestream.spark.streaming.streaming import run_workers

        def run() -> None:
            it, tasks = self._jobs[job], sum(each.count for each in self._jobs.values())
            run_workers(
                self._spark.context, it.count, it.main, of=tasks, first=it.first,
                ended=lambda problem: self._reactor.soon(lambda: self._over(job, problem)),
            )  # fmt: skip

        self._reactor.background(run, lambda result: self._begun(job, result))

    def _begun(self, job: int, result: Exception | None) -> None:
        if isinstance(result, Retryable):
            self._over(job, result)
        elif isinstance(result, ManifestError) and len(self._jobs) > 1:
            del self._jobs[job]
            self._ended(result)
        elif isinstance(result, Exception):
            raise result

    def _over(self, job: int, problem: Retryable | None) -> None:
        if problem is None or self._stopping:
            self._jobs.pop(job, None)
            if not self._jobs:
                self._ended(None)
        elif self._starts >= MAX_STARTS:
            self._ended(problem)
        elif not self._again_soon:  # each of the jobs says that Spark is lost
            self._again_soon = True
            self._reactor.later(AGAIN.after(self._starts), self._again)

    def _again(self) -> None:
        self._again_soon = False
        if not self._stopping:
            self._spark.close()
            self._start_spark()
            for job in self._jobs:
                self._run_tasks(job)


@dataclass(frozen=True, slots=True)
class _SparkJob:
    """Tasks that were started together, with indexes from `first` on."""

    first: int
    count: int
    main: Callable[..., int]
    config: Path


class PlainWorkers:
    """Workers as processes of our own, started again when they die: at once, but for one that a standby takes over
    from, which is started behind that."""

    driver = 0

    def __init__(self, reactor: EpollReactor, folder: Path, standby: int, ended: Ended) -> None:
        """`standby` of those that are told the same take no part until another dies."""
        self._reactor, self._folder, self._standby, self._ended = reactor, folder, standby, ended
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._due: set[int] = set()
        """Those that have died and are not started again yet."""
        self._configs: dict[int, Path] = {}
        self._lives = Counter[int]()
        self._stopping = False

    def start(self, count: int, config: Path) -> None:
        """Start the processes. Only in the main thread."""
        for _ in range(count):
            # an index that is free again, or there would be more files of logs with each
            taken = self._processes.keys() | self._due
            index = next(index for index in itertools.count() if index not in taken)
            self._configs[index] = config
            self._start(index)

    def running(self, config: Path) -> int:
        return self._alive(config) + sum(self._configs[index] == config for index in self._due)

    def stop(self) -> None:
        self._stopping = True
        self._due.clear()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _alive(self, config: Path) -> int:
        return sum(self._configs[index] == config for index in self._processes)

    def _start(self, index: int) -> None:
        ordinal, self._lives[index] = self._lives[index], self._lives[index] + 1
        command: list[str | Path] = [
            sys.executable,
            "-m",
            _MODULE,
            self._configs[index],
            self._folder,
            str(index),
            str(ordinal),
        ]
        environment = {**os.environ, **INTERPRETER}
        process = start_child(command, self._folder / "logs" / f"worker-{index}.out", environment)
        self._processes[index] = process
        watch_process(self._reactor, process, lambda code: self._died(index, code))

    def _died(self, index: int, code: int) -> None:
        del self._processes[index]
        if self._stopping or code == 0:
            if not self._processes:
                self._due.clear()
                self._ended(None)
            return
        config = self._configs[index]
        self._due.add(index)
        if self._alive(config) >= self.running(config) - self._standby:
            self._reactor.later(TAKEN_OVER_WITHIN, lambda: self._again({index}))
        else:
            self._again(set(self._due))

    def _again(self, indexes: set[int]) -> None:
        for index in indexes & self._due:
            self._due.remove(index)
            self._start(index)


def watch_process(
    reactor: EpollReactor, process: subprocess.Popen[bytes], ended: Callable[[int], None]
) -> None:
    """Call `ended` with a process's exit code, in the loop, as soon as it has ended."""
    fd = os.pidfd_open(process.pid)

    def over() -> None:
        code = process.poll()
        if code is not None:
            reactor.unwatch(fd)
            os.close(fd)
            ended(code)

    reactor.watch(fd, readable=over)
