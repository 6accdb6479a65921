"""What a drill looks at, healthy unless a test says otherwise, and its steps carried out as time passes."""

from typing import Any

from flamestream.job.drills.drill import (
    Step,
    step,
)
from flamestream.job.drills.observed import DrillObserved, DrillPlan
from flamestream.job.drills.status import OVER, AuditResult, DrillStatus
from flamestream.job.status import JobStatus, LastRecovery, WorkerFigures

START = 1000.0
CLEAN = AuditResult(clean=True, records=5, delivered=5, complete=True)
PLAN = DrillPlan(job="j", target="worker", times=2, seed=1, timeout=300.0)
PAUSE = DrillPlan(job="j", target="worker", lasting=8.0)


def told(attempt: int = 1, **more: Any) -> JobStatus:
    """A job's coordinator that has two workers; `bundles`, `items_in`, `in_flight` and `minimal` are of the
    first."""
    figures: dict[str, Any] = {
        name: more.pop(name)
        for name in ("bundles", "items_in", "in_flight", "minimal", "memory")
        if name in more
    }
    workers = [WorkerFigures(worker="w0", connected=True, **({"memory": 1} | figures))]
    workers += [
        WorkerFigures(worker=f"w{number}", connected=True, memory=1)
        for number in range(1, more.pop("workers", 2))
    ]
    last = LastRecovery(cause="lost w0", duration_ms=120.0)
    given: dict[str, Any] = {
        "phase": "running",
        "attempt": attempt,
        "workers": workers,
        "last_recovery": last,
    }
    return JobStatus(job="n.j", pid=1, updated=0, **(given | more))


class World:
    """What a drill looks at, healthy unless a test says otherwise: faults are made and seen, results flow,
    epochs come."""

    def __init__(self, plan: DrillPlan = PLAN, **always: Any) -> None:
        self.plan, self.always = plan, always
        self.now, self.status, self.attempt, self.count, self.epoch = START, DrillStatus(), 1, 0, 0
        self.struck: list[str] = []
        self.effects: list[str] = []

    def look(self, **more: Any) -> DrillObserved:
        self.count, self.epoch = self.count + 1, self.epoch + 1
        coordinator = told(
            self.attempt, bundles=self.count, items_in=self.count, epoch=self.epoch, cut_time=self.count
        )
        given: dict[str, Any] = {
            "job_phase": "Running", "workers": 2, "told": coordinator, "attempt": self.attempt,
            "victims": {"p1": ("u1",), "p2": ("u2",)}, "sight": "gone" if self.struck else "",
            "audit": CLEAN if self.status.phase == "Auditing" else None,
        }  # fmt: skip
        return DrillObserved(now=self.now, plan=self.plan, status=self.status, **(given | self.always | more))

    def step(self, **more: Any) -> Step:
        """One look and what follows, carried out; then time passes."""
        done = step(self.look(**more))
        self.status = done.status
        if done.effect == "strike":
            self.struck.append(done.status.victim)
            self.attempt += 1
        self.effects += [done.effect] if done.effect else []
        self.now += done.look_again
        return done

    def until(self, *phases: str, struck: bool = False, most: int = 2000, **more: Any) -> DrillStatus:
        """Go on until it is in one of these phases, or a fault is announced."""
        for _ in range(most):
            if self.status.phase in phases or (struck and self.status.struck_at):
                return self.status
            self.step(**more)
        raise AssertionError(f"never {phases}: {self.status}")

    def over(self, **more: Any) -> DrillStatus:
        return self.until(*OVER, **more)


def announced(plan: DrillPlan = PLAN) -> World:
    """A fault is in the status and was made."""
    world = World(plan)
    world.until(struck=True)
    return world
