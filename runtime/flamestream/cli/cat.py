"""`flamestream cat`: everything that a sink has been given, in the total order, one JSON document a line."""

import sys
from itertools import islice
from typing import Annotated

import msgspec
import typer

from flamestream.cli.frame import JobPlace
from flamestream.cli.output import Json
from flamestream.cli.snapshots import know_classes
from flamestream.connectors import sinks
from flamestream.job.validation import loaded
from flamestream.model.errors import ManifestError
from flamestream.model.meta import time_of_meta
from flamestream.model.payloads.plain import plain
from flamestream.model.time import front_of, timestamp_of
from flamestream.node.run_folder import find


def command(
    sink: Annotated[str, typer.Argument(help="Name of the sink.", show_default=False)],
    job: JobPlace,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Stop after so many items.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Print all delivered items of a sink in the total order, one JSON document a line: payloads, or with
    --json also their places.

    Example: [bold]flamestream cat index job.yaml | tail -1[/bold]. It may be run while the job runs.
    """
    found, _ = find(job, None)
    if sink not in found.spec.sinks:
        raise ManifestError(
            f"{found.document.file}: there is no sink {sink!r}; it has {', '.join(found.spec.sinks)}"
        )
    loaded(found)  # so that its payload types are known
    know_classes(found)
    for item in islice(sinks.read(found.sink(sink), f"spec.sinks.{sink}", found.name), limit):
        sys.stdout.write(line(item, places=json) + "\n")


def line(item: sinks.Item, places: bool) -> str:
    """An item as one JSON document."""
    meta, slot, sequence, payload = item
    time = time_of_meta(meta)
    placed = {
        "time": timestamp_of(time),
        "front": front_of(time),
        "meta": meta.hex(),
        "slot": slot,
        "bundle": sequence,
        "payload": payload,
    }
    return msgspec.json.encode(placed if places else payload, enc_hook=plain).decode()
