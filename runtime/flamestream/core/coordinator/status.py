"""Status: what a coordinator shows of its job at a moment.

Does not: decide anything, or say when it is told (coordinator.py).
"""

from flamestream.core.coordinator import coordination as co
from flamestream.core.coordinator.changes.upgrade import Upgrade
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.endings import Endings
from flamestream.core.coordinator.healing import Healing


def status_of(
    context: Context, healing: Healing, endings: Endings, upgrade: Upgrade, *troubles: str
) -> co.Status:
    """The status; `troubles` are those that none of these knows."""
    phase, problems = _phase(context, healing, endings), _problems(context, endings, *troubles)
    if context.keeper.record is None:
        return co.Status(phase=phase, standbys=tuple(context.members.connected), problems=problems)
    record = context.record
    return co.Status(
        phase=phase, attempt=record.attempt, epoch=record.committed, cut=record.cut, problems=problems,
        workers=tuple(worker for worker in context.workers if worker in context.members),
        standbys=tuple(sorted(context.members.spares(context.workers))), recoveries=healing.recoveries,
        cause=healing.cause, duration_us=healing.duration_us, replayed_from=healing.replayed_from,
        kind=healing.kind, steps=tuple(healing.steps.items()), snapshot_size=context.committed.size,
        code=record.code, refused=upgrade.refused, refusal=upgrade.refusal, before=upgrade.before,
        watched=upgrade.watched,
        successors=tuple(sorted(set(context.members.connected) - {*context.members.of(context.members.code)})),
        wanted=context.wanted,
    )  # fmt: skip


def _phase(context: Context, healing: Healing, endings: Endings) -> co.Phase:
    if context.finished:
        return "finished"
    if not context.keeper.known:
        return "starting"
    if endings.drain or endings.failure or endings.verdict:
        return "ending"
    if not context.running and healing.recovery is None:
        return "gathering"
    if healing.wrong:
        return "waiting"
    return "running" if context.running else "recovering"


def _problems(context: Context, endings: Endings, *troubles: str) -> tuple[str, ...]:
    members = context.members
    # standbys too: what one cannot read would fail the recovery that gives it slots
    of_workers = [
        f"{worker}: {members[worker].problem}"
        for worker in (*context.workers, *members.standbys(context.workers))
        if worker in members and members[worker].problem
    ]
    ending = endings.verdict or endings.failure
    own = [context.keeper.problem, context.committed.problem, *troubles, ending.message if ending else ""]
    return tuple(problem for problem in [*own, *of_workers] if problem)
