"""`flamestream trace`: where a delivered item came from.

Does not: find anything out (audit/descent.py).
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from flamestream.audit.committed import cluster_state_of, committed_here
from flamestream.audit.descent import MOST, Descent, descents
from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.cli.snapshots import know_classes
from flamestream.job.validation import checked_job
from flamestream.model.payloads.plain import plain
from flamestream.node.run_folder import find

ItemText = Annotated[
    str, typer.Argument(help="A text that is in the item, as `cat` prints it.", show_default=False)
]
SinkAlone = Annotated[str, typer.Option(help="Look in this sink alone.", show_default=False)]
Newest = Annotated[int, typer.Option(min=1, max=MOST, help="The newest so many.")]


def command(
    job: JobPlace,
    text: ItemText,
    sink: SinkAlone = "",
    limit: Newest = 10,
    run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:
    """Show where delivered items came from: the record of the source, the run that it entered in, the slot and the
    bundle that the item left in, and when.

    Example: [bold]flamestream trace job.yaml '"shop":"north"'[/bold]. It may be run while the job runs.
    """
    found, folder = find(job, run_folder)
    checked = checked_job(found)
    know_classes(found)
    with cluster_state_of(folder) as zookeeper:
        last = committed_here(folder, zookeeper, found.identity, found.store)
        traced = descents(checked, last, zookeeper, text, sink, limit)
    answer(documents(traced), told(traced, text), json)


def documents(traced: Sequence[Descent]) -> list[dict[str, Any]]:
    """Descents as --json has them."""
    return [msgspec.to_builtins(asdict(each), enc_hook=plain) for each in traced]


def told(traced: Sequence[Descent], text: str) -> str:
    """Descents in words."""
    return "\n\n".join(map(_told, traced)) or f"no delivered item has {text!r} in it"


def _moment(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")


def _released(descent: Descent) -> str:
    if descent.written:
        return f"{_moment(descent.written)}, as its sink has written down"
    until = "the commit of its epoch" if descent.saved else "it was read"
    return f"between {_moment(descent.released_after)} and {_moment(descent.released_before)}, when {until}"


def _told(descent: Descent) -> str:
    entered = _moment(descent.time)
    where = f"{descent.source} {descent.partition} at {descent.offset}".replace("  ", " ")
    record = (
        f"{where}: {descent.record!r}" if descent.records else "its run cannot be read again (journal.keep)"
    )
    return "\n".join(
        [
            f"{descent.sink}: {descent.payload!r}",
            f"  from     {record}",
            f"  entered  {entered}, record {descent.position + 1} of {descent.records or 'a run'}",
            f"  left     in bundle {descent.bundle} of slot {descent.slot}"
            f"{f', which {descent.owner} has now' if descent.owner else ''}; meta {descent.meta}",
            f"  released {_released(descent)}",
            f"  saved    {'below the committed cut' if descent.saved else 'not yet: a recovery computes it again'}",
        ]
    )
