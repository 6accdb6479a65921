"""`kubectl flamestream watch`: each change of a row of a table of a cluster's job, asked for as `query` does, from one
worker as long as it answers.

Keeps: what `flamestream watch` does. Does not: know the job's classes: values are what JSON has.
"""

from flamestream.cli.kubectl.cluster import Cluster
from flamestream.cli.kubectl.options import Context, JobName, Namespace
from flamestream.cli.kubectl.query import CaFile, JobOfCluster, TokenFile
from flamestream.cli.output import Json
from flamestream.cli.views.watch import After, Limit, Watched, show
from flamestream.live.kept_changes import watched
from flamestream.node.queries.rows import split


def command(  # noqa: PLR0913, PLR0917  # a command's parameters are its options
    job: JobName,
    row: Watched,
    after: After = "",
    limit: Limit = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    namespace: Namespace = "",
    context: Context = "",
    json: Json = False,
) -> None:
    """Show each change of a row of a table once, as it is committed, until it is interrupted. The graph says that its
    changes are kept: `table.keep_changes()`; the job is asked at its port (spec.queries).

    The number in front of a change is its place: with --after another watch goes on behind it, whatever has failed in
    between. Exit code 5 if the job does not answer.

    Example: [bold]kubectl flamestream watch bank "accounts['ann']"[/bold]
    """
    name, key = split(row)
    with JobOfCluster(Cluster(namespace, context), job, token_file, ca_file).asking() as asked:
        changes = watched(
            lambda keys, least: asked(lambda port: port.read(keys, "stale", least)),
            lambda row, known, least: asked(lambda port: port.wait(row, known, least)),
            name,
            key,
            after,
        )
        show(row, changes, limit, json)
