"""`flamestream query`: what a job has of some keys."""

from typing import Annotated, Any

import msgspec
import typer

from flamestream.audit.committed import cluster_state_of, committed_here
from flamestream.cli.output import Json, answer
from flamestream.cli.validate import JobPlace, RunFolderOption
from flamestream.job.validation import loaded
from flamestream.model.payloads.plain import plain
from flamestream.node.committed_rows import NOTHING, row_of, states_at
from flamestream.node.run_folder import find
from flamestream.store.places import store_from

Rows = Annotated[list[str], typer.Argument(help='Rows, as in "accounts[\'ann\']" or "totals[7]".')]


def command(job: JobPlace, rows: Rows, run_folder: RunFolderOption = None, json: Json = False) -> None:
    """Show rows of tables, and states of keys by the names that `plan` shows, as the last epoch has them.

    All of them are of one cut. It reads the job's store, so the job need not run, and is not slowed. Exit code 2 for a
    name that the graph does not have.

    Example: [bold]flamestream query job.yaml "accounts['ann']" "accounts['bob']"[/bold]
    """
    found, folder = find(job, run_folder)
    _, graph = loaded(found)
    asked = [row_of(graph, written) for written in rows]
    with cluster_state_of(folder) as zookeeper:
        last = committed_here(folder, zookeeper, found.name, found.store)
    states = [NOTHING] * len(asked)
    if last.index is not None:
        states = states_at(graph, last.index, store_from(found.store), asked)
    data: dict[str, Any] = {
        "epoch": last.epoch,
        "cut": last.cut,
        "rows": [
            {"row": row.written}
            | ({} if state is NOTHING else {"state": msgspec.to_builtins(state, enc_hook=plain)})
            for row, state in zip(asked, states, strict=True)
        ],
    }
    lines = [
        f"{row.written} = {'nothing' if state is NOTHING else repr(state)}"
        for row, state in zip(asked, states, strict=True)
    ]
    answer(data, "\n".join([*lines, f"as epoch {last.epoch} has them"]), json)
