"""`flamestream bootstrap`: gives a job that never ran the state of a history, before its stream begins."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from flamestream.adapters import sources
from flamestream.adapters.sources.cut_files import saved_at
from flamestream.adapters.sources.recorded import RecordedSource
from flamestream.cli.output import Json, as_json, say
from flamestream.cli.run import RunFolderOption
from flamestream.cli.run_folder import RunFolder
from flamestream.cli.settings_of import fronts_of
from flamestream.cli.validate import ManifestFile
from flamestream.cli.validation import CheckedJob, checked
from flamestream.model.errors import ManifestError, UserError
from flamestream.model.time import Time

NEEDS_ARGUMENTS: Final = True
MARK: Final = "bootstrap.json"
"""In the run folder of a job that has begun so."""


def command(
    manifest: ManifestFile,
    history: Annotated[
        list[str], typer.Argument(metavar="SOURCE=PATH...", help="Parquet that stands in for a source.", show_default=False)
    ],
    run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:
    """Commit the state that a history in Parquet leads to; `run` then begins its stream with it. The history's results are not delivered.

    Example: [bold]flamestream bootstrap job.yaml docs=history/[/bold]
    """
    job = checked(manifest)
    folder = RunFolder.of(job.job.name, run_folder)
    rows = _bootstrapped(job, folder, dict(_pair(text) for text in history))
    if json:
        as_json({"job": job.job.name, "epoch": 1, "rows": rows})
    else:
        say(f"job {job.job.name!r} begins with {rows:,} keys at epoch 1")


class Begun(msgspec.Struct, frozen=True):
    """What a job began with."""

    paths: dict[str, str]
    """Source -> Parquet that stood in for it."""
    cut: int
    """Behind the history."""

    @property
    def time(self) -> Time:
        return Time(self.cut)


def begun(folder: RunFolder) -> Begun | None:
    """How the job of a run folder began; None if with nothing. Raises UserError if an older release wrote it down."""
    mark = folder.path / MARK
    if not mark.exists():
        return None
    try:
        return msgspec.json.decode(mark.read_bytes(), type=Begun)
    except msgspec.ValidationError:
        raise UserError(f"{folder.path}: this job began with a history that was not written down, so an audit cannot see it") from None


def history_of(checked: CheckedJob, paths: Mapping[str, str]) -> list[RecordedSource]:
    """The history's sources, in the place of the fronts that they stand in for."""
    found, fronts = [], fronts_of(checked)
    for front in fronts:
        if front.source in paths and sources.share_of(fronts, front.front) == 0:  # one reads it, however many read the stream
            spec = {"files": saved_at(paths[front.source])}
            traits = sources.describe(spec, front.source)
            saved = replace(front, timed=True, run_length=traits.run_length, replayable=True)
            found.append(RecordedSource(checked.job.name, saved, spec))
    return found


def _pair(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise ManifestError(f"{text!r}: write SOURCE=PATH, like docs=history/")
    return name, Path(path).absolute()


def _bootstrapped(job: CheckedJob, folder: RunFolder, paths: dict[str, Path]) -> int:
    from flamestream.cli.frames import PYTHON, attempt_of, frame_job, session, spark_for  # lazily: PySpark takes a while to import
    from flamestream.spark.bootstrap import bootstrap, end_of
    from flamestream.spark.frames.commit import Committed
    from flamestream.spark.frames.inputs import Input
    from flamestream.spark.frames.raised import raised_in_tasks

    frames = frame_job(job)
    unknown = sorted(paths.keys() - {each.name for each in frames.inputs})
    if unknown:
        raise ManifestError(f"{job.job.document.file}: there is no source {unknown[0]!r}; it has {', '.join(job.job.spec.sources)}")
    vertices = {each.name: each.vertex for each in frames.inputs}
    texts = {name: str(path) for name, path in paths.items()}
    history = [Input(vertices[source.front.source], source, bounded=True) for source in history_of(job, texts)]
    frames = replace(frames, inputs=tuple(history))
    with spark_for(job, folder.made()) as driver, attempt_of(job, folder) as records, raised_in_tasks():
        committed = Committed(
            records.record, records.write, job.job.store, job=job.job.name, graph=job.graph.identity, python=PYTHON,
            slots=job.job.spec.workers.slots,
        )  # fmt: skip
        folder.write(MARK, Begun(texts, end_of(history)))
        return bootstrap(session(driver), frames, committed, history, len(job.graph.sources))
