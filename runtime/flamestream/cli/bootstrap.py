"""`flamestream bootstrap`: gives a job that never ran the state of a history, before its stream begins."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from flamestream.audit.begun import MARK, Begun, history_of, settle
from flamestream.cli.frame import ManifestFile, RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.job.settings import local_coordinator
from flamestream.job.validation import CheckedJob, checked
from flamestream.model.errors import ClusterStateUnavailable, ManifestError
from flamestream.node.run_folder import RunFolder


def command(
    manifest: ManifestFile,
    history: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE=PATH...", help="Parquet that stands in for a source.", show_default=False
        ),
    ],
    run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:
    """Commit the state that a history in Parquet leads to; `run` then begins its stream with it. The
    history's results are not delivered.

    Example: [bold]flamestream bootstrap job.yaml docs=history/[/bold]
    """
    job = checked(manifest)
    folder = RunFolder.of(job.job.name, run_folder)
    rows = _bootstrapped(job, folder, dict(_pair(text) for text in history))
    answer(
        {"job": job.job.name, "epoch": 1, "rows": rows},
        f"job {job.job.name!r} begins with {rows:,} keys at epoch 1",
        json,
    )


def _pair(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise ManifestError(f"{text!r}: write SOURCE=PATH, like docs=history/")
    return name, Path(path).absolute()


def _bootstrapped(job: CheckedJob, folder: RunFolder, paths: dict[str, Path]) -> int:
    # lazily: PySpark takes a while to import
    from flamestream.cli.spark.frames import attempt_of, spark_for
    from flamestream.spark.batches.frame_job import frame_job
    from flamestream.spark.frames.bootstrap import bootstrap, end_of, refuse_state
    from flamestream.spark.frames.commit import Committed
    from flamestream.spark.frames.inputs import Input
    from flamestream.spark.frames.raised import raised_in_tasks
    from flamestream.spark.frames.session import session_of

    frames = frame_job(job)
    unknown = sorted(paths.keys() - {each.name for each in frames.inputs})
    if unknown:
        raise ManifestError(
            f"{job.job.document.file}: there is no source {unknown[0]!r}; it has "
            f"{', '.join(job.job.spec.sources)}"
        )
    vertices = {each.name: each.vertex for each in frames.inputs}
    texts = {name: str(path) for name, path in paths.items()}
    history = [
        Input(vertices[source.front.source], source, bounded=True) for source in history_of(job, texts)
    ]
    frames = replace(frames, inputs=tuple(history))
    with attempt_of(job, folder.made(), changed=True) as records:
        committed = Committed(records.record, records.write, job.job.store, job.graph, local_coordinator(job))
        refuse_state(job.job.name, committed)
        with spark_for(job, folder) as driver, raised_in_tasks():
            # Before the commit (!): no job that began so is without it, and one too many is removed (`settle`).
            folder.write(MARK, Begun(texts, end_of(history)))
            try:
                return bootstrap(session_of(driver), frames, committed, history, len(job.graph.sources))
            finally:
                with suppress(ClusterStateUnavailable):  # then the next start settles it
                    settle(folder, records.read())
