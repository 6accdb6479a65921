"""`flamestream run`: runs a job on this machine until it ends or is stopped."""

import logging
import signal
from typing import Annotated, Literal

import typer

from flamestream.cli.frame import ManifestFile, RunFolderOption
from flamestream.cli.output import Json, errors, say_outcome
from flamestream.cli.progress import progress_line
from flamestream.job.exit_codes import BY_CATEGORY, ExitCode
from flamestream.job.validation import CheckedJob, checked
from flamestream.machine.process_shell import keep_private
from flamestream.model.errors import ManifestError
from flamestream.model.kernel import WHY_NOT, kernel
from flamestream.node.run_folder import RunFolder


def command(
    manifest: ManifestFile,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop at an epoch, when all that has entered is through.")
    ] = False,
    run_folder: RunFolderOption = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Run every function twice; name one that is not pure.")
    ] = False,
    runner: Annotated[
        Literal["streaming", "batch", "micro-batch"] | None,
        typer.Option(
            "--runner",
            help="Default: streaming, or micro-batch if that is the guarantee.",
            show_default=False,
        ),
    ] = None,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", hidden=True, help="Workers as plain processes, for tests.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Go on though the application's code was edited.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a job until its input ends, it fails, or Ctrl-C. A second start goes on where the first one
    stopped.

    With --runner batch it reads all there is as one Spark batch; the results are the same bytes
    (docs/how-to/runners.md).

    A start whose application was edited since the last one is refused unless --changed says that this is
    meant.

    Example: [bold]flamestream run job.yaml[/bold]. Exit codes: 1 the job failed, 2 its manifest is wrong, 4
    it runs already.
    """
    keep_private()  # whatever runs it: the processes that it starts inherit that
    job = checked(manifest, debug=debug)
    _warn(job)
    folder = RunFolder.of(job.job.name, run_folder)
    _prepare(job, folder)
    if runner is None:
        runner = "micro-batch" if job.job.spec.batches else "streaming"
    if runner != "streaming":
        _refuse(runner, {"--drain": drain and runner == "batch", "--no-spark": no_spark})
    if runner == "batch":
        from flamestream.cli.spark import batch  # lazily: PySpark takes a while to import

        raise typer.Exit(batch.run(job, folder, changed=changed, json=json))
    if runner == "micro-batch":
        from flamestream.cli.spark import microbatch  # lazily: the same

        raise typer.Exit(microbatch.run(job, folder, drain=drain, changed=changed, json=json))
    raise typer.Exit(run(job, folder, drain=drain, spark=not no_spark, changed=changed, json=json))


def _prepare(job: CheckedJob, folder: RunFolder) -> None:
    """Do what few jobs ask for, which alone import it: names to drop, another job to go on with."""
    spec = job.job.spec
    if spec.upgrade is not None:
        from flamestream.cli.changes.drops import warn_of_drops

        warn_of_drops(job.job)
    if spec.take_over is not None:
        from flamestream.cli.changes.take_over import take_over

        take_over(job, spec.take_over, folder)


def _warn(job: CheckedJob) -> None:
    for warning in job.warnings:
        errors.print(f"warning: {warning}", markup=False)
    if kernel is None:
        errors.print(
            f"warning: no native kernel: {WHY_NOT}. Results are the same, slower: `flamestream doctor`",
            markup=False,
        )


def _refuse(runner: str, options: dict[str, bool]) -> None:
    """Refuse options that a runner does not look at."""
    for option in (name for name, given in options.items() if given):
        raise ManifestError(f"{option} is not of the {runner} runner: leave it out, or choose another one")


def run(
    job: CheckedJob,
    folder: RunFolder,
    *,
    drain: bool = False,
    spark: bool = True,
    changed: bool = False,
    json: bool = False,
) -> ExitCode:
    """Run it, obeying signals; how it ended is said and returned."""
    from flamestream.local.launcher import Launcher  # lazily: it brings kazoo and more

    logging.basicConfig(level=logging.WARNING, format=_LOG_LINE, filename=folder.made().logs / "launcher.log")
    with progress_line(folder, shown=errors.is_terminal and not json) as look:
        say_aside = lambda text: errors.print(text, markup=False)  # noqa: E731
        launcher = Launcher(job, folder, spark=spark, changed=changed, look=look, say=say_aside)
        # Put back afterwards: the demo goes on in this process when the job has ended.
        before = {
            number: signal.signal(number, lambda *_: launcher.request("drain" if drain else "stop"))
            for number in _SIGNALS
        }
        before[signal.SIGUSR2] = signal.signal(signal.SIGUSR2, lambda *_: launcher.upgrade())
        try:
            outcome = launcher.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    say_outcome(job.job.name, outcome.outcome, outcome.category, outcome.message, json)
    return BY_CATEGORY.get(outcome.category, ExitCode.BUG)


_LOG_LINE = "%(asctime)s %(levelname)s %(name)s %(message)s"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
