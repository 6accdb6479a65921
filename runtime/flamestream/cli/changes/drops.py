"""Names in a manifest's `upgrade.drop` that nothing has are said, wherever a job goes on.

Does not: refuse. What was forgotten in an earlier start is not there any more, and its line may stay.
"""

from contextlib import suppress

from flamestream.cli.output import errors
from flamestream.cli.snapshots import newest
from flamestream.core.protocol.changes import idle_drops
from flamestream.job.manifest import Job
from flamestream.job.settings import dropped
from flamestream.model.errors import StoreUnavailable


def warn_of_drops(job: Job) -> None:
    """Say which names the newest snapshot has nothing of; nothing, where nobody can know."""
    if not (drop := dropped(job.spec)):
        return
    with suppress(StoreUnavailable):  # not made yet, or away
        index = newest(job)
        if index is not None and (idle := idle_drops(index, drop)):
            errors.print(
                f"warning: spec.upgrade.drop names {', '.join(map(repr, idle))}, and the job's snapshot of epoch "
                f"{index.epoch} has no such operation, table or source: it is gone already, or is called otherwise",
                markup=False,
            )
