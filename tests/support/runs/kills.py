"""Random kills of a running job's parts, at moments chosen by what it has delivered so far, and what must be
true around them.

A plan is drawn from a seed: which role dies when which part of the output is there. Kills may fall into the
recovery from the one before. Only descendants of the job's own launcher are killed, or the launcher itself; a
job whose launcher died is started again.

Keeps: between two kills nobody dies or is replaced but the victims (survivors keep their process). Does not:
say what the output must be.
"""

import contextlib
import enum
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from support.eventually import eventually
from support.processes import alive, command_of, dead, descendants, kill, parent, suspend
from support.runs.cli_job import CliJob


class Role(enum.StrEnum):
    """Whom a kill hits."""

    WORKER = "worker"
    STANDBY = "standby"
    COORDINATOR = "coordinator"
    DAEMON = "daemon"
    """The process that forks Python workers: leaves orphans."""
    EXECUTOR = "executor"
    """The JVM that a worker runs under; on a local master it is the driver."""
    DRIVER = "driver"
    LAUNCHER = "launcher"
    """And with it everything; the job is started again."""
    CALLER = "caller"
    """The process that makes a worker's calls."""
    ZOMBIE = "zombie"
    """No kill: a worker stands until it is replaced, then goes on."""


Plan = Sequence[tuple[float, Role]]


def drawn(seed: int, roles: Sequence[Role]) -> Plan:
    """When each of these dies: at which part of the output, ascending."""
    rng = random.Random(seed)
    shuffled = rng.sample(roles, len(roles))
    return list(zip(sorted(rng.uniform(0.02, 0.9) for _ in roles), shuffled, strict=True))


@dataclass(slots=True)
class Killer:
    """Carries a plan out. `total` is what the output will be at least, in bytes."""

    job: CliJob
    plan: Plan
    total: int
    seed: int
    meanwhile: Callable[[float], None] = lambda _: None
    """Called with the part of the output that is awaited next, again and again."""
    kills: int = 0
    story: list[str] = field(default_factory=list)
    _lives: dict[str, int] = field(default_factory=dict)
    """Workers that were seen in the job and must still live: name -> pid."""
    _gone: set[int] = field(default_factory=set)
    _woken: set[int] = field(default_factory=set)
    """Zombies that went on: each may join again, or end when its sink refuses it, so none has to live."""

    def run(self) -> None:
        """Every kill of the plan, each at its time. The job must last so long."""
        began = time.monotonic()
        for part, role in self.plan:
            self._await_output(part)
            self._check_survivors(part)
            self._strike(role)
            self.story.append(
                f"{self.job.output_bytes() / self.total:.3f}: {role} ({time.monotonic() - began:.1f} s)"
            )

    def run_with(self, plan: Sequence[tuple[float, Role | str]], restart: Callable[[], None]) -> None:
        """The same, of a plan in which a server dies too: what is no role is `restart`."""
        for part, victim in plan:
            if isinstance(victim, Role):
                self.plan = [(part, victim)]
                self.run()
            else:
                eventually(partial(self._there, part), f"{part} of the output", within=120)
                restart()

    def _there(self, part: float) -> bool:
        self.meanwhile(part)
        return self.job.output_bytes() >= part * self.total

    def __str__(self) -> str:
        planned = "; ".join(f"{part:.3f}: {role}" for part, role in self.plan)
        return (
            f"seed {self.seed}, killed at these parts of the output: "
            f"{'; '.join(self.story)} (planned: {planned})"
        )

    # --- before ---------------------------------------------------------------------------------------------

    def _await_output(self, part: float) -> None:
        def there() -> bool:
            assert not self.job.ended, (
                f"the job ended before it was killed at {part:.3f}: "
                f"{self.job.output_bytes() / self.total:.3f} is there"
            )
            return self._there(part)

        eventually(there, f"{part:.3f} of the output", within=120)

    def _check_survivors(self, part: float) -> None:
        dead = {name: pid for name, pid in self._lives.items() if not alive(pid)}
        assert not dead, f"workers died that nobody killed, before {part:.3f}: {dead}"
        self._lives = self._here()

    def _here(self) -> dict[str, int]:
        """Workers and standbys of the job now that live."""
        status = self.job.status()
        if status is None:
            return {}
        names = [*(worker.worker for worker in status.workers), *status.standbys]
        return {name: pid for name in names if (pid := self._pid(name)) and pid not in self._woken}

    def _pid(self, name: str) -> int:
        """Of a life of a worker, if it lives and is not about to die with another."""
        found = self.job.run_folder.worker(name)
        return (
            found.pid
            if found is not None and found.here and found.alive and found.pid not in self._gone
            else 0
        )

    # --- the kill -------------------------------------------------------------------------------------------

    def _strike(self, role: Role) -> None:
        rng = random.Random(f"{self.seed} {self.kills}")
        if role is Role.ZOMBIE:
            self._let_stand(rng)
            return
        self.kills += 1
        if role is Role.LAUNCHER:
            self._restart()
            return
        victim = eventually(lambda: self._victim(role, rng), f"a {role} to kill", within=90)
        dying = [victim, *([] if role is Role.COORDINATOR else descendants(victim))]
        self._gone.update(dying)
        self._lives = {name: pid for name, pid in self._lives.items() if pid not in dying}
        kill(victim)
        for pid in dying:
            eventually(partial(dead, pid), f"{pid} ends with {role} {victim}")

    def _victim(self, role: Role, rng: random.Random) -> int:
        """Its pid; 0 if there is none now. Only a descendant of the launcher."""
        info, status, launcher = self.job.run_folder.info(), self.job.status(), self.job.launcher
        assert launcher is not None
        if info is None or status is None or info.launcher.pid != launcher.pid:
            return 0
        if role in (Role.COORDINATOR, Role.DRIVER):
            pid = info.coordinator if role is Role.COORDINATOR else info.driver
        else:
            names = status.standbys if role is Role.STANDBY else [worker.worker for worker in status.workers]
            pids = sorted(pid for name in names if (pid := self._pid(name)))
            pid = rng.choice(pids) if pids else 0
            if role is Role.CALLER:
                callers = [child for child in descendants(pid) if "calls.process" in command_of(child)]
                pid = callers[0] if pid and callers else 0
            for _ in range({Role.DAEMON: 1, Role.EXECUTOR: 2}.get(role, 0)):
                pid = parent(pid) if pid else 0
        return pid if pid in descendants(launcher.pid) else 0

    def _restart(self) -> None:
        """The whole job is gone at once, and started again."""
        launcher = self.job.launcher
        assert launcher is not None
        below = descendants(launcher.pid)
        self._gone.update(below)
        self._lives.clear()
        launcher.kill()
        launcher.wait()
        for pid in below:
            eventually(partial(dead, pid), f"{pid} ends with its launcher", within=60)
        self.job.start()

    def _let_stand(self, rng: random.Random) -> None:
        """A worker stands still until others have its slots and have delivered more; then it wakes up and
        believes it has them."""
        pid = eventually(lambda: self._victim(Role.WORKER, rng), "a worker to suspend", within=90)
        before = self.job.status()
        assert before is not None
        suspend(pid)
        try:
            eventually(
                lambda: self._taken_over(before.attempt),
                f"others take the slots of {pid}, which stands",
                within=60,
            )
            there = self.job.output_bytes()
            eventually(lambda: self._goes_on(there), "output of those who took over")
        finally:
            self._woken.add(pid)
            # the job has failed meanwhile: what it says is wanted, not this
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._lives = {name: other for name, other in self._lives.items() if other != pid}

    def _goes_on(self, there: int) -> bool:
        self.meanwhile(there / self.total + 0.05)
        return self.job.output_bytes() > there

    def _taken_over(self, attempt: int) -> bool:
        status = self.job.status()
        return status is not None and status.attempt > attempt and status.phase == "running"


def kill_a_worker_after_more_output(job: CliJob, *, reads: bool) -> None:
    """The one that reads the source, or the other."""
    job.running()
    there = job.output_bytes()

    def one() -> int:
        status = job.status()
        read = {worker.worker: worker.items_in > 0 for worker in status.workers} if status is not None else {}
        names = [name for name in read if read[name] is reads] if any(read.values()) else []
        found = job.run_folder.worker(names[0]) if names and job.output_bytes() > there + 10_000 else None
        return found.pid if found is not None and found.alive else 0

    kill(eventually(one, "more output, and whom to kill"))
