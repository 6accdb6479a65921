"""`flamestream audit --spark`: a large history, audited as a Spark job in the Spark of the manifest.

Does not: compare (spark/history.py).
"""

import tempfile
from dataclasses import asdict
from pathlib import Path

from flamestream.cli.bootstrap import Begun, history_of
from flamestream.cli.frames import frame_job, session, spark_for
from flamestream.cli.output import as_json, say
from flamestream.cli.run_folder import RunFolder
from flamestream.cli.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.time import START
from flamestream.spark.frames.inputs import Input
from flamestream.spark.frames.raised import raised_in_tasks
from flamestream.spark.history import Findings, audit_history


def audit_with_spark(checked: CheckedJob, folder: RunFolder, complete: bool, began: Begun | None, *, json: bool) -> bool:
    """Say what was found. Whether nothing is wrong. `began`: the history before it."""
    folders = {name: _folder_of(checked, name) for name in checked.job.spec.sinks}
    place = tempfile.TemporaryDirectory(dir=folder.made().path, prefix="audit-")  # the job itself may run, with a Spark of its own
    with place as scratch, spark_for(checked, RunFolder(Path(scratch))) as driver, raised_in_tasks():
        cut = START if began is None else began.time
        job = frame_job(checked, cut)
        vertices = {each.name: each.vertex for each in job.inputs}
        past = [] if began is None else history_of(checked, began.paths)
        history = [Input(vertices[source.front.source], source, bounded=True) for source in past]
        found = audit_history(session(driver), job, folders, complete=complete, history=history, cut=cut)
    clean = not (found.lost or found.doubled or found.foreign or found.reordered)
    if json:
        as_json({"complete": complete, "verdict": asdict(found), "clean": clean})
    else:
        say(sentence(found, complete))
    return clean


def sentence(found: Findings, complete: bool) -> str:
    """The outcome in a line, and the first difference."""
    text = f"{found.delivered:,} results, {found.lost:,} lost, {found.doubled:,} doubled, {found.reordered:,} reordered"
    if found.foreign:
        text += f", {found.foreign:,} that the batch runner does not have"
    if not complete:
        text += " (the job has not ended: input behind each slot's last result is not counted)"
    return text + (f"\nfirst difference: {found.first_difference}" if found.first_difference else "")


def _folder_of(checked: CheckedJob, sink: str) -> Path:
    spec = checked.job.sink(sink)
    if "files" not in spec:
        raise UserError(f"sink {sink!r} is not a `files` sink: what others got is with whom they delivered to, and cannot be audited here")
    return Path(spec["files"]["path"])
