"""The sources of a job as they can be read again: each front's, with the journal that was kept of it.

Does not: read one (connectors/recorded.py).
"""

from flamestream.connectors import sources
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.settings import FrontSettings
from flamestream.job.journal_of import journal_of
from flamestream.job.settings import fronts_of
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.time import START, Time, last_below
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess


def recorded_sources(
    checked: CheckedJob, job: str = "", zookeeper: ZooKeeperAccess = NOWHERE, cut: Time = START
) -> list[RecordedSource]:
    """Each front's source. `cut`: of the history that the job began with. Raises UserError for one of which
    nobody knows at which times its records entered."""
    journal = journal_of(checked.job, zookeeper)
    kept = journal if journal is not None and journal.keep else None
    fronts = fronts_of(checked)
    timed = {source.name for source in checked.graph.sources if source.timing is not None}
    return [
        RecordedSource(
            job or checked.job.identity,
            front,
            checked.job.source(front.source),
            kept,
            sources.share_of(fronts, front.front),
            max(START if cut == START else last_below(cut, front.front), _begins(checked, front)),
            tells_time=front.source in timed,
        )
        for front in fronts
    ]


def _begins(checked: CheckedJob, front: FrontSettings) -> Time:
    """Behind which time a front began."""
    if front.front >= len(checked.known):
        return START
    known = checked.known[front.front]
    if known.again and front.timed:
        raise UserError(
            f"source {front.source!r} was away for a while, and where it was when it came back is in no journal: "
            "what it led to cannot be judged"
        )
    return known.begins or START
