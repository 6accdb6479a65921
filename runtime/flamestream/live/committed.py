"""The answer of a job's last epoch, on one machine or beside a job of a cluster.

Does not: know where the last epoch is (audit/committed.py).
"""

from collections.abc import Sequence

from flamestream.audit.committed import LastCommit
from flamestream.core.protocol.matching import fits
from flamestream.live.port import Answer, Page, Wanted
from flamestream.model.errors import Retryable
from flamestream.model.graph import Graph
from flamestream.model.time import Time
from flamestream.node.queries.committed import NOTHING, every_state, states_at
from flamestream.node.queries.rows import Kept, Row, behind, cursor_of
from flamestream.store.places import store_from


def recent(last: LastCommit, at_least: Time) -> LastCommit:
    """The last epoch. Raises Retryable if its cut is before `at_least`."""
    if last.cut < at_least:
        raise Retryable(f"the last epoch is of {last.cut}, before {at_least}: ask again behind the next one")
    return last


def committed_answer(graph: Graph, last: LastCommit, store: str, rows: Sequence[Row]) -> Answer:
    """The states of rows at the cut of the last epoch, from the job's store. Raises as `states_at`."""
    if last.index is None:
        return Answer(last.cut, (NOTHING,) * len(rows), "committed")
    return Answer(last.cut, tuple(states_at(graph, last.index, store_from(store), rows)), "committed")


def committed_page(graph: Graph, last: LastCommit, store: str, wanted: Wanted) -> Page:
    """A page of keys with their states at the cut of the last epoch, from the job's store. Raises as `states_at`."""
    kept = Kept(graph)
    vertex, matching = kept.matching(wanted.name, wanted.prefix)
    if last.index is None:
        return Page(last.cut, (), "", "committed")
    after = behind(wanted.cursor)
    found = every_state(graph, last.index, store_from(store), vertex)
    keys = sorted(key for key in found if key > after and fits(matching, key))
    page = keys[: wanted.limit]
    rows = tuple((kept.key(wanted.name, key), found[key]) for key in page)
    more = cursor_of(page[-1]) if len(page) < len(keys) else ""
    return Page(last.cut, rows, more, "committed")
