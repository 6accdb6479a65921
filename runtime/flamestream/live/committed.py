"""The answer of a job's last epoch, on one machine or beside a job of a cluster.

Does not: know where the last epoch is (audit/committed.py).
"""

from collections.abc import Collection, Sequence

from flamestream.audit.committed import LastCommit
from flamestream.core.protocol.matching import fits
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.core.protocol.stored_rows import Numbers
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
    """The states of rows at the cut of the last epoch, from the job's store. Raises as `states_at`, and Retryable for
    an index that it has not."""
    if last.index is None:
        return Answer(last.cut, (NOTHING,) * len(rows), "committed")
    _check_made(graph, last.index, {row.name for row in rows})
    return Answer(last.cut, tuple(states_at(graph, last.index, store_from(store), rows)), "committed")


def committed_page(graph: Graph, last: LastCommit, store: str, wanted: Wanted) -> Page:
    """A page of keys with their states at the cut of the last epoch, from the job's store. Raises as
    `committed_answer`."""
    kept = Kept(graph)
    vertex, matching = kept.matching(wanted.name, wanted.prefix)
    if last.index is None:
        return Page(last.cut, (), "", "committed")
    _check_made(graph, last.index, {wanted.name})
    after = behind(wanted.cursor)
    found = every_state(graph, last.index, store_from(store), vertex)
    keys = sorted(key for key in found if key > after and fits(matching, key))
    page = keys[: wanted.limit]
    rows = tuple((kept.key(wanted.name, key), found[key]) for key in page)
    more = cursor_of(page[-1]) if len(page) < len(keys) else ""
    return Page(last.cut, rows, more, "committed")


def _check_made(graph: Graph, index: SnapshotIndex, names: Collection[str]) -> None:
    """Raises Retryable for an index that is new: an empty answer would say that no row has its value."""
    if graph.ledger is None:
        return
    deciding, known = graph.ledger.deciding, Numbers(graph).known(index)
    fresh = {table for vertex in known.operations for table in known.fresh_tables(vertex)}
    for name in names:
        if name in deciding.rules and deciding.stored(name) in fresh & deciding.indexes.keys():
            raise Retryable(
                f"{name!r} is new, and is made of its table's rows when the job runs: ask again behind its next epoch"
            )
