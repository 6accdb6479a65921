"""`kubectl flamestream COMMAND`: kubectl finds the program `kubectl-flamestream` on the PATH.

The same words, exit codes and `--json` as `flamestream`; a job is named, not its file.

Does not: talk to the API server by itself (cluster.py calls kubectl).
"""

import heapq
import sys
import threading
import time
from collections.abc import Sequence
from queue import Queue
from typing import Annotated, Any, Final

import msgspec
import typer

from flamestream.audit.definitions.table import UNSEEN, Row, in_words
from flamestream.audit.descent import Descent
from flamestream.cli import frame
from flamestream.cli.kubectl import drill, query, watch
from flamestream.cli.kubectl.beside import beside, exit_code, last_document
from flamestream.cli.kubectl.cluster import Cluster, Object, condition
from flamestream.cli.kubectl.options import Context, JobName, Namespace
from flamestream.cli.kubectl.screen import lines, row, table
from flamestream.cli.output import Json, answer, as_json, say
from flamestream.cli.views.trace import ItemText, Newest, SinkAlone, told
from flamestream.job.drills.left_audit import ANNOTATION, LeftAudit, written_left
from flamestream.job.drills.status import AuditResult, CodeResult, codes_in_words
from flamestream.job.exit_codes import ExitCode
from flamestream.model.decoding import from_json
from flamestream.model.errors import ManifestError, Retryable, UserError

app = frame.command_line("kubectl flamestream", "FlameStreamJobs in a cluster.")
Wait = Annotated[bool, typer.Option(help="Return when it is done.")]
_KIND: Final = "flamestreamjobs.flamestream.dev"


@app.command("list")
def list_command(
    namespace: Namespace = "",
    context: Context = "",
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A")] = False,
    json: Json = False,
) -> None:
    """List the jobs.

    Example: [bold]kubectl flamestream list -A[/bold]
    """
    cluster = Cluster(namespace, context)
    rows = [row(job) for job in cluster.get(_KIND, *(["-A"] if everywhere else []))["items"]]
    answer(rows, "\n".join(table(rows)) if rows else "no jobs: kubectl apply -f job.yaml makes one", json)


@app.command()
def status(job: JobName, namespace: Namespace = "", context: Context = "", json: Json = False) -> None:
    """Show a job on a screen: graph, stream, workers, last recovery. Exit code 5 if it is not running.

    Example: [bold]kubectl flamestream status inverted-index[/bold]
    """
    cluster = Cluster(namespace, context)
    found = cluster.job(job)
    if json:
        as_json({"job": found})
    else:
        say("\n".join(lines(found, cluster.pods(job))))
    if (
        condition(found, "Running").get("status") != "True"
        and found.get("status", {}).get("phase") != "Completed"
    ):
        raise typer.Exit(ExitCode.UNAVAILABLE)


@app.command()
def suspend(
    job: JobName, namespace: Namespace = "", context: Context = "", wait: Wait = True, json: Json = False
) -> None:
    """Stop a job at a committed epoch. Its status says at which.

    Example: [bold]kubectl flamestream suspend inverted-index[/bold]
    """
    cluster = Cluster(namespace, context)
    cluster.patch(_KIND, job, {"spec": {"suspend": True}})
    if wait:
        # Shorter than TIMEOUT (cluster.py), so that kubectl itself says what it has waited for.
        cluster.run("wait", "--for=condition=Suspended", f"{_KIND}/{job}", "--timeout=55s")
    found = cluster.job(job) if wait or json else {}
    if json:
        as_json(_standing(found))
    elif wait:
        say(condition(found, "Suspended").get("message", "suspended"))


def _standing(job: Object) -> dict[str, Any]:
    """The phase of a job and its suspension, for `--json`."""
    status = job.get("status") or {}
    return {
        "job": job["metadata"]["name"],
        "phase": status.get("phase", "Pending"),
        "suspension": status.get("suspension"),
    }


@app.command()
def resume(
    job: JobName, namespace: Namespace = "", context: Context = "", wait: Wait = False, json: Json = False
) -> None:
    """Let a suspended job go on from its epoch.

    Example: [bold]kubectl flamestream resume inverted-index[/bold]
    """
    cluster = Cluster(namespace, context)
    cluster.patch(_KIND, job, {"spec": {"suspend": False}})
    if wait:
        cluster.run("wait", "--for=condition=Ready", f"{_KIND}/{job}", "--timeout=55s")
    if json:
        as_json(_standing(cluster.job(job)))
    else:
        say(f"{job} resumes")


@app.command()
def savepoint(
    job: JobName,
    name: Annotated[str, typer.Option(help="Of the FlameStreamSnapshot; made up if left out.")] = "",
    namespace: Namespace = "",
    context: Context = "",
    wait: Wait = True,
    json: Json = False,
) -> None:
    """Take a savepoint: a FlameStreamSnapshot that another job can start from (spec.restoreFrom).

    Example: [bold]kubectl flamestream savepoint inverted-index --name before-upgrade[/bold]
    """
    cluster = Cluster(namespace, context)
    meta = {"name": name} if name else {"generateName": f"{job[:50]}-"}
    made = cluster.create(
        {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamSnapshot",
            "metadata": meta,
            "spec": {"job": job},
        }
    )
    taken = made["metadata"]["name"]
    if wait:
        cluster.run(
            "wait",
            "--for=condition=Completed",
            f"flamestreamsnapshots.flamestream.dev/{taken}",
            "--timeout=55s",
        )
    found = cluster.get("flamestreamsnapshots.flamestream.dev", taken).get("status") or {}
    size = f", epoch {found['epoch']}, {found['size']:,} bytes" if found.get("epoch") else ""
    answer({"name": taken, "status": found}, f"{taken}: {found.get('phase', 'Pending')}{size}", json)


@app.command()
def upgrade(
    job: JobName,
    diff: Annotated[
        bool, typer.Option("--diff", help="Say what the new code gives for the newest records.")
    ] = False,
    namespace: Namespace = "",
    context: Context = "",
    json: Json = False,
) -> None:
    """Show how the newest code was tried beside the stream: with --diff also what it gave for the newest records,
    and the code before. An edit of the spec or of the application is what begins an upgrade.

    Exit code 1 if it was refused, 3 if results differ (--diff).

    Example: [bold]kubectl flamestream upgrade inverted-index --diff[/bold]
    """
    trial = (cluster_job := Cluster(namespace, context).job(job)).get("status", {}).get("preflight")
    if trial is None:
        raise UserError(f"job {job!r} has had no other code yet: nothing was tried")
    canary = trial.get("canary") or {}
    told = canary.get("summary") or "canary: there was none"
    words = {"Running": "is tried", "Passed": "may take over", "Failed": "was refused"}[trial["state"]]
    reason = f": {trial['message']}" if trial.get("message") else ""
    rows = [f"code {(trial.get('digest') or trial['code'])[:12]} {words}{reason}"]
    rows += [told, *(f"  {each}" for each in canary.get("examples") or ())] if diff else []
    answer({"job": cluster_job["metadata"]["name"], "preflight": trial}, "\n".join(rows), json)
    if trial["state"] == "Failed":
        raise typer.Exit(ExitCode.JOB_FAILED)
    if diff and canary.get("differ"):
        raise typer.Exit(ExitCode.DIFFERENCE)


app.command("drill")(drill.command)
app.command("query")(query.command)
app.command("watch")(watch.command)


@app.command()
def audit(
    job: JobName,
    changed: Annotated[
        bool, typer.Option("--changed", help="Interpret all of it with the application as it is now.")
    ] = False,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Also say which of the formal model's definitions hold.")
    ] = False,
    namespace: Namespace = "",
    context: Context = "",
    json: Json = False,
) -> None:
    """Compare everything that was delivered with the reference interpreter, in a pod beside the job. Exit
    code 3 for a difference. The verdict stays with the job's object, for the cluster's page.

    Each result is compared by the code that made it, of which the operator keeps a copy. With --changed the
    code of now stands for all of it, and a difference may be the edit's. --definitions knows the code of now
    alone.

    Example: [bold]kubectl flamestream audit inverted-index[/bold]
    """
    cluster, began = Cluster(namespace, context), time.time_ns() // 1000
    more = [*(["--changed"] if changed else []), *(["--definitions"] if definitions else [])]
    asked = ["python3", "-m", "flamestream_operator.tools.audit_main", *more]
    with beside(cluster, job, asked, earlier=True) as pod:
        said = last_document(cluster, pod)
    if not said:
        raise Retryable(
            f"the audit of {job!r} ended without a verdict: try again, or look at its pod's events"
        )
    found = from_json(said)
    if "error" in found:
        raise UserError(f"the output of {job!r} cannot be audited: {found['error']}")
    _leave(cluster, job, began, found)
    wrong = ", ".join(
        f"{found[what]} {what}" for what in ("lost", "doubled", "reordered", "foreign", "misplaced")
    )
    counts = (
        f"{found['records']:,} records, {found['delivered']:,} results, {wrong}, "
        f"{found['notDue']:,} not due yet"
    )
    difference = f"first difference: {found['firstDifference']}" if found["firstDifference"] else ""
    codes = codes_in_words([CodeResult(**each) for each in found.get("codes", ())])
    rows = [Row(**{**each, "strict": each["strict"] or None}) for each in found.get("definitions", ())]
    formal = (in_words(rows), UNSEEN) if rows else ()
    told = (counts, found["bounds"], found["input"], *codes, difference, *formal)
    answer(found, "\n".join(filter(None, told)), json)
    if not found["clean"]:
        raise typer.Exit(ExitCode.DIFFERENCE)


def _leave(cluster: Cluster, job: str, began: int, found: Object) -> None:
    """Leave a verdict at the job's object, for the page of the cluster. Who may not write there has it all the same."""
    left = LeftAudit(began=began, ended=time.time_ns() // 1000, audit=msgspec.convert(found, AuditResult))
    try:
        cluster.patch(_KIND, job, {"metadata": {"annotations": {ANNOTATION: written_left(left)}}})
    except (UserError, Retryable) as error:
        sys.stderr.write(f"the cluster's page does not get to know this verdict: {error}\n")


@app.command()
def trace(
    job: JobName,
    text: ItemText,
    sink: SinkAlone = "",
    limit: Newest = 10,
    namespace: Namespace = "",
    context: Context = "",
    json: Json = False,
) -> None:
    """Show where delivered items came from, in a pod beside the job: the record of the source, the run that it
    entered in, the slot and the bundle that the item left in, and when.

    Example: [bold]kubectl flamestream trace inverted-index '"word":"flame"'[/bold]
    """
    asked = ["python3", "-m", "flamestream_operator.tools.trace_main", f"--sink={sink}", f"--limit={limit}"]
    cluster = Cluster(namespace, context)
    if sink:
        _check_sink(cluster, job, sink)
    with beside(cluster, job, [*asked, "--", text]) as pod:
        said = last_document(cluster, pod)
    if not said:
        raise Retryable(f"the look at {job!r} ended without a word: try again, or look at its pod's events")
    found = from_json(said)
    if "error" in found:
        raise UserError(f"the items of {job!r} cannot be traced: {found['error']['message']}")
    answer(found["traced"], told(msgspec.convert(found["traced"], list[Descent]), text), json)


def _check_sink(cluster: Cluster, job: str, sink: str) -> None:
    sinks = cluster.job(job)["spec"]["sinks"]
    if sink not in sinks:
        raise ManifestError(f"job {job!r} has no sink {sink!r}; it has {', '.join(sinks)}")


@app.command()
def cat(
    sink: Annotated[str, typer.Argument(help="Name of the sink.", show_default=False)],
    job: JobName,
    limit: Annotated[int, typer.Option(min=0, help="Stop after so many items; 0: all.")] = 0,
    namespace: Namespace = "",
    context: Context = "",
    json: Json = False,
) -> None:
    """Print what a sink was given, in the total order, one JSON document a line: payloads, or with --json
    also their places.

    Example: [bold]kubectl flamestream cat index inverted-index | tail -1[/bold]
    """
    cluster = Cluster(namespace, context)
    _check_sink(cluster, job, sink)
    with beside(
        cluster,
        job,
        [
            "python3",
            "-m",
            "flamestream_operator.tools.cat_main",
            sink,
            str(limit),
            *(["--json"] if json else []),
        ],
    ) as pod:
        before = ""
        for line in cluster.follow("logs", "-f", pod):
            if before:
                sys.stdout.write(before + "\n")
            before = line
        if exit_code(cluster, pod):  # then its last line says why
            raise UserError(
                before.removeprefix("error: ") or f"reading sink {sink!r} ended without a word: try again"
            )
        sys.stdout.write(before + "\n" if before else "")


@app.command()
def logs(
    job: JobName,
    namespace: Namespace = "",
    context: Context = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    tail: Annotated[int, typer.Option(help="Lines of each pod; -1: all.")] = 200,
    json: Json = False,
) -> None:
    """Lines of the driver and all workers, merged in time. With --json a document a line: pod, time and what
    it says.

    Example: [bold]kubectl flamestream logs inverted-index -f[/bold]
    """
    cluster = Cluster(namespace, context)
    names = [pod["metadata"]["name"] for pod in cluster.pods(job)]
    if not names:
        raise UserError(f"job {job!r} has no pods now")
    commands = [["logs", name, "--timestamps", f"--tail={tail}", "--all-containers"] for name in names]
    if not follow:
        streams = [
            [(line, name) for line in cluster.run(*command).splitlines()]
            for name, command in zip(names, commands, strict=True)
        ]
        # Each line begins with its timestamp, by which pods are merged.
        for line, name in heapq.merge(*streams):
            _show(name, line, json)
        return
    _follow(cluster, names, commands, json)


def _show(pod: str, line: str, json: bool) -> None:
    time, _, text = line.partition(" ")
    answer({"pod": pod, "time": time, "line": text}, f"{pod}  {line}", json)


def _follow(cluster: Cluster, names: Sequence[str], commands: Sequence[list[str]], json: bool) -> None:
    """Each pod in a thread, until all have ended."""
    # bounded: a slow terminal holds the readers back
    arrived: Queue[tuple[str, str] | None] = Queue(maxsize=10_000)

    def read(name: str, command: list[str]) -> None:
        for line in cluster.follow(*command, "-f"):
            arrived.put((name, line))
        arrived.put(None)

    for name, command in zip(names, commands, strict=True):
        threading.Thread(target=read, args=(name, command), daemon=True).start()
    left = len(names)
    while left:
        item = arrived.get()
        if item is None:
            left -= 1
        else:
            _show(*item, json)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Leaves with one of `ExitCode`."""
    frame.run(app, arguments)


if __name__ == "__main__":
    main()
