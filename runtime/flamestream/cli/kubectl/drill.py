"""`kubectl flamestream drill`: makes a FlameStreamDrill, tells each fault as it is over, and ends with the
verdict's exit code.

Keeps: every wait has a bound. A drill that nobody takes up is removed: it would strike whenever somebody
switches drills on. Does not: decide the verdict (the operator does, by job/drills/drill.py).
"""

import time
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec.structs import replace

from flamestream.cli.drill_report import code_of_drill, fault_told, verdict_told
from flamestream.cli.kubectl.cluster import Cluster, Object
from flamestream.cli.kubectl.options import Context, JobName, Namespace
from flamestream.cli.output import Json, answer, say
from flamestream.job.drills.drill import AUDIT_WITHIN
from flamestream.job.drills.status import OVER, DrillStatus, FaultResult, Reason
from flamestream.job.manifest_parts import Seconds
from flamestream.model.errors import ManifestError, Retryable, UserError

KIND: Final = "flamestreamdrills.flamestream.dev"
TAKEN_UP_WITHIN: Final = 45.0
"""Seconds: longer than another operator needs to lead."""
GRACE: Final = 60.0
POLL: Final = 1.0
_OFF: Final = (
    "nobody took the drill up within {:.0f} s, so it was removed again. Drills are off unless the operator's "
    "chart has the value "
    "operator.drills: `helm upgrade ... --set operator.drills=true`. If they are on: does an operator run, "
    "and watch this namespace (operator.watchNamespaces, operator.namespaceSelector)?"
)
_TARGETS: Final = (
    "worker, daemon, executor, driver, application, operator, zookeeper, store, pod, network or node"
)


def command(  # noqa: PLR0913, PLR0917  # a command's parameters are its options
    job: JobName,
    kill: Annotated[
        str, typer.Option(help=f"{_TARGETS}; which goes with what: docs/operations/operator.md.")
    ] = "",
    delete: Annotated[str, typer.Option(help="A pod of the target, with grace.")] = "",
    pause: Annotated[str, typer.Option(help="SIGSTOP, and SIGCONT after --for.")] = "",
    cut: Annotated[str, typer.Option(help="Nothing passes, and nobody is told, for --for.")] = "",
    lasting: Annotated[str, typer.Option("--for", help="Of a pause or a cut; 10s if left out.")] = "",
    selector: Annotated[
        list[str] | None, typer.Option(help="LABEL=VALUE of the pods, for zookeeper, store and pod.")
    ] = None,
    where: Annotated[
        str, typer.Option("--in", help="Their namespace, of allow.drillNamespaces.", show_default=False)
    ] = "",
    times: Annotated[int, typer.Option(min=1, max=100)] = 1,
    timeout: Annotated[str, typer.Option(help="The job must be whole again so long after a fault.")] = "5m",
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Without, gaps are measured and nothing is proved.")
    ] = True,
    namespace: Namespace = "",
    context: Context = "",
    json: Json = False,
) -> None:
    """Break a part of a running job (a worker's process, if nothing is named), and audit everything it
    delivered.

    Exit code 3 if the job broke a promise, 7 if the drill proved nothing, 5 if nobody carries drills out.

    Example: [bold]kubectl flamestream drill inverted-index --kill executor --times 3[/bold]
    """
    chosen = {
        action: target
        for action, target in {"kill": kill, "delete": delete, "pause": pause, "cut": cut}.items()
        if target
    }
    if len(chosen) > 1:
        raise ManifestError(f"one drill does one thing: choose one of --{', --'.join(chosen)}")
    action, target = next(iter(chosen.items()), ("kill", "worker"))
    if lasting and action not in ("pause", "cut"):
        raise ManifestError(f"--for is of --pause and --cut: what you {action} is gone at once")
    fault: Object = {"target": target, "action": action} | ({"pauseFor": lasting} if lasting else {})
    fault |= {"targetSelector": _labels(selector)} if selector else {}
    fault |= {"targetNamespace": where} if where else {}
    spec = {"job": job, "fault": fault, "times": times, "timeout": timeout, "audit": audit}
    status = _made(
        Cluster(namespace, context), job, target, spec, None if json else lambda found: say(fault_told(found))
    )
    answer(status, verdict_told(status), json)
    raise typer.Exit(code_of_drill(status))


def _labels(given: list[str]) -> dict[str, str]:
    if strange := [each for each in given if "=" not in each]:
        raise ManifestError(f"--selector is LABEL=VALUE, not {strange[0]!r}")
    return {name: value for name, _, value in (each.partition("=") for each in given)}


def _made(
    cluster: Cluster, job: str, target: str, spec: Object, tell: Callable[[FaultResult], None] | None
) -> DrillStatus:
    try:
        cluster.job(job)
    except UserError as error:
        if "NotFound" not in str(error):
            raise
        return _nothing("JobNotFound", f"there is no job {job!r} in this namespace: {error}")
    meta = {"generateName": f"{job[:40]}-{target}-"}
    made = cluster.create(
        {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamDrill", "metadata": meta, "spec": spec}
    )
    name = made["metadata"]["name"]
    longest = max(AUDIT_WITHIN, float(Seconds.parse(spec["timeout"]))) + GRACE

    def remove() -> None:
        cluster.run("delete", KIND, name, "--ignore-not-found", "--wait=false")

    return followed(lambda: read(cluster, name), remove, tell or (lambda _: None), longest)


def read(cluster: Cluster, name: str) -> DrillStatus | None:
    """The status as the operator wrote it; None: none yet. Raises UserError if the drill is not there,
    Retryable if nobody answers."""
    found: Any = cluster.get(KIND, name).get("status")
    try:
        return msgspec.convert(found, DrillStatus) if found else None
    except msgspec.ValidationError as error:
        raise UserError(
            f"the status of drill {name} is of another version of FlameStream than this command: {error}"
        ) from error


def followed(
    look: Callable[[], DrillStatus | None],
    remove: Callable[[], None],
    tell: Callable[[FaultResult], None],
    longest: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> DrillStatus:
    """Follow a drill to its end; its last status. `longest`: seconds in which its status must change, for
    every step of it has a bound."""
    last, since = DrillStatus(), clock()
    while True:
        try:
            status = look() or DrillStatus()
        except Retryable:  # an API server that is away comes back, or the time runs out
            status = last
        except UserError as error:
            if "NotFound" not in str(error):
                raise
            return replace(
                last,
                phase="Inconclusive",
                reason="DrillDeleted",
                message="the drill was deleted before it was over",
            )
        for fault in status.faults[-(status.done - last.done) :] if status.done > last.done else ():
            tell(fault)
        if status.phase in OVER:
            return status
        last, since = status, clock() if status != last else since
        if status == DrillStatus() and clock() - since > TAKEN_UP_WITHIN:
            remove()  # (!) it would strike whenever drills are switched on
            return _nothing("DrillsOff", _OFF.format(TAKEN_UP_WITHIN))
        if clock() - since > longest:
            text = (
                f"the operator has written nothing for {longest:.0f} s: does one run? It goes on when it "
                "does, or delete the drill"
            )
            return replace(status, phase="Inconclusive", reason="Stalled", message=text)
        sleep(POLL)


def _nothing(reason: Reason, message: str) -> DrillStatus:
    return DrillStatus(phase="Inconclusive", reason=reason, message=message)
