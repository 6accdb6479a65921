"""How the launcher keeps a job's workers alive: as tasks of a Spark that it starts, or as plain processes for
tests.

Spark starts a lost task again by itself. If Spark itself is lost, with its JVM, a new one is started, with a
growing pause: the coordinator sees workers go and others come, and decides what that means.

Keeps: `ended` is called once, when every worker was told to stop, or with the error that nothing can be done
about. Does not: know what workers do, or tell them to stop.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from flamestream.job.manifest import SparkSettings as Asked
from flamestream.loop.reactor import EpollReactor
from flamestream.machine.parent_death import start_child
from flamestream.model.backoff import Backoff
from flamestream.model.errors import FlameStreamError, Retryable
from flamestream.spark.streaming.worker_main import worker_main

AGAIN: Final = Backoff(0.1, 5.0)
MAX_STARTS: Final = 100
"""A Spark that has to be started more often than this is beyond help."""
_MODULE: Final = "flamestream.spark.streaming.worker_main"
Ended = Callable[[FlameStreamError | None], None]


class Workers(Protocol):
    """The workers of a job, of either kind, as the launcher needs them."""

    @property
    def driver(self) -> int:
        """Pid of Spark's JVM; 0 if there is none."""
        ...

    def stop(self) -> None:
        """End those that still run."""
        ...


class SparkWorkers:
    """Workers as tasks of our own Spark."""

    def __init__(
        self,
        reactor: EpollReactor,
        asked: Asked,
        count: int,
        config: bytes,
        folder: Path,
        python_path: tuple[Path, ...],
        ended: Ended,
    ) -> None:
        """Start Spark and its tasks. Only in the main thread."""
        # lazily: PySpark takes a while to import
        from flamestream.spark.streaming.session import SparkSettings

        self._reactor, self._count, self._ended = reactor, count, ended
        self._settings = SparkSettings(
            workers=count,
            scratch=folder / "spark",
            master=asked.master or "",
            conf=asked.conf,
            python_path=python_path,
            name=f"flamestream {folder.name}",
        )
        self._main = partial(worker_main, config, str(folder) if self._settings.local else "")
        self._starts = 0
        self._stopping = False
        self._start()

    @property
    def driver(self) -> int:
        return self._spark.jvm.pid

    def stop(self) -> None:
        self._stopping = True
        self._spark.close()

    def _start(self) -> None:
        from flamestream.spark.streaming.session import SparkDriver

        self._starts += 1
        # Here, in the main thread, which the JVM ends with (parent_death.py): only what waits for it is in a
        # helper.
        self._spark = SparkDriver(self._settings)
        self._reactor.background(self._run_tasks, self._begun)

    def _run_tasks(self) -> None:
        from flamestream.spark.streaming.streaming import run_workers

        run_workers(
            self._spark.context,
            self._count,
            self._main,
            lambda problem: self._reactor.soon(lambda: self._over(problem)),
        )

    def _begun(self, result: Exception | None) -> None:
        if isinstance(result, Retryable):
            self._over(result)
        elif isinstance(result, Exception):
            raise result

    def _over(self, problem: Retryable | None) -> None:
        if problem is None or self._stopping:
            self._ended(None)
        elif self._starts >= MAX_STARTS:
            self._ended(problem)
        else:
            self._reactor.later(AGAIN.after(self._starts), self._again)

    def _again(self) -> None:
        if not self._stopping:
            self._spark.close()
            self._start()


class PlainWorkers:
    """Workers as processes of our own, started again when they die."""

    driver = 0

    def __init__(self, reactor: EpollReactor, count: int, config: Path, folder: Path, ended: Ended) -> None:
        """Start the processes. Only in the main thread."""
        self._reactor, self._config, self._folder, self._ended = reactor, config, folder, ended
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lives = dict.fromkeys(range(count), 0)
        self._stopping = False
        for index in range(count):
            self._start(index)

    def stop(self) -> None:
        self._stopping = True
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _start(self, index: int) -> None:
        ordinal, self._lives[index] = self._lives[index], self._lives[index] + 1
        command: list[str | Path] = [
            sys.executable,
            "-m",
            _MODULE,
            self._config,
            self._folder,
            str(index),
            str(ordinal),
        ]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        process = start_child(command, self._folder / "logs" / f"worker-{index}.out", environment)
        self._processes[index] = process
        watch_process(self._reactor, process, lambda code: self._died(index, code))

    def _died(self, index: int, code: int) -> None:
        del self._processes[index]
        if self._stopping or code == 0:
            if not self._processes:
                self._ended(None)
        else:
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
