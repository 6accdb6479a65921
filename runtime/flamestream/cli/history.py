"""`flamestream history`: what another system read from a job's topics and wrote to them, for `audit
--history`.

Does not: read a topic (audit/topic_history.py).
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flamestream.audit.definitions.reasons import counted
from flamestream.audit.topic_history import written
from flamestream.cli.frame import JobPlace
from flamestream.cli.output import Json, answer
from flamestream.node.run_folder import find


def command(
    job: JobPlace,
    file: Annotated[Path, typer.Argument(help="A new file for the history.", show_default=False)],
    json: Json = False,
) -> None:
    """Write what stands in the Kafka topics of a job's sources and sinks as a history: all records, then all
    results by time. Any system may have written the results.

    Of a sink with `form: transactional` committed results are read, of one with `low-latency` all of them.

    Example: [bold]flamestream history job.yaml seen.jsonl[/bold]; then
    [bold]flamestream audit job.yaml --history seen.jsonl[/bold].
    """
    found, _ = find(job, None)
    counts = written(found, file)
    text = f"{counted(counts.records, 'record')} and {counted(counts.results, 'result')} in {file}"
    answer(asdict(counts), text, json)
