"""Tables in micro-batches: the bytes of the reference, whatever dies between, and a state that a stream goes on from
and leaves."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flamestream as fs
from flamestream.core.protocol.job_record import JobRecord
from flamestream.model import payload as codec
from flamestream.model.errors import ClusterStateUnavailable
from flamestream.model.tables.ledger import Deciding
from flamestream.model.tables.transaction import State
from flamestream.node.queries.committed import every_state
from flamestream.store.places import store_from
from support.eventually import eventually
from support.frames.frame_jobs import Site, pair
from support.runs.scratch import Scratch

pytestmark = [pytest.mark.spark, pytest.mark.frames]
Pair = tuple[str, str]


def bank(*, indexed: Callable[[tuple[int, str]], str] | None = lambda row: row[1]) -> fs.Graph:
    """Sums with the last digit of whatever came last, some of which are closed, refused or go wrong."""
    graph = fs.Graph("bank")
    sums = graph.table("sums", initial=lambda: (0, ""), check=lambda key, row: row[0] < 300)
    index = None if indexed is None else sums.index("by_last", key=indexed)

    def add(state: State, payload: Pair) -> Any:
        key, number = payload
        if number.endswith("7"):
            raise fs.Abort("seven")
        if number.endswith("13"):
            raise ValueError(f"nobody adds {number}")
        if number.endswith("0"):
            del state[sums, key]
            return key, number, ()
        state[sums, key] = state[sums, key][0] + int(number), number[-1]
        return key, number, () if index is None else tuple(state[index, number[-1]])

    added = graph.source("s0").map(pair).filter(lambda payload: payload[0] != "-").transact(add)
    added.committed.sink("out", key=lambda result: result[0])
    added.aborted.map(lambda a: (a.transaction, a.reason)).sink("refused", key=lambda told: told[0][0])
    sums.changes().map(lambda write: (write.key, write.after, write.deleted)).sink(
        "changes", key=lambda w: w[0]
    )
    return graph


def lines(count: int, first: int = 0) -> str:
    rng = Random(first)
    return "".join(f"{rng.choice('abcdefgh')} {number}\n" for number in range(first, first + count))


def lost_at(epoch: int) -> Callable[[JobRecord], None]:
    """The coordinator is not there to commit it."""

    def lost(record: JobRecord) -> None:
        if record.committed == epoch:
            raise ClusterStateUnavailable("gone")

    return lost


def rows(site: Site) -> dict[Any, Any]:
    """The rows of all tables that the committed snapshot has."""
    index = site.micro_batches()._committed.index
    assert index is not None
    objects = store_from(str(site.path / "store"))
    tables = next(vertex.id for vertex in site.graph.vertices if isinstance(vertex.combine, Deciding))
    return {
        codec.decode(key): value for key, value in every_state(site.graph, index, objects, tables).items()
    }


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, bank(), texts=[lines(90)])


def test_micro_batches_decide_what_the_reference_decides(site: Site) -> None:
    assert site.run(most_runs=8).batches >= 4
    assert site.delivered() == site.expected() and all(site.delivered().values())


def test_a_query_that_dies_before_its_commit_decides_the_same_again(site: Site) -> None:
    with pytest.raises(ClusterStateUnavailable):
        site.run(most_runs=8, spoil=lost_at(3))
    assert site.run(most_runs=8).repeated > 0
    assert site.delivered() == site.expected()


def test_a_query_goes_on_behind_another_that_has_committed_meanwhile(site: Site) -> None:
    """Each dies with a batch delivered that it has not committed, and none has batches of the length of the others."""
    dying = ((8, 3), (12, 4), (4, 5))
    for most_runs, epoch in dying:
        with pytest.raises(ClusterStateUnavailable):
            site.run(most_runs=most_runs, spoil=lost_at(epoch))
    site.run(most_runs=2)
    assert site.delivered() == site.expected()


def begun(path: Path, text: str, **changes: Any) -> Site:
    """A job whose query was stopped in its first batch, which has two records."""
    site = Site(path, bank(**changes), texts=[text])
    batches = site.micro_batches(most_runs=1, spoil=lambda record: batches.stop())
    assert batches.run().batches == 1
    return site


def test_a_batch_writes_the_rows_that_it_has_changed_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    site = begun(tmp_path, "a 1\nb 2\na 4\nb 10\n", indexed=None)
    site.run(most_runs=1)
    index = site.micro_batches()._committed.index
    assert index is not None and [ref.rows for ref in index.segments] == [2, 2]
    assert rows(site) == {("sums", "a"): (5, "4")}


def test_an_index_that_is_new_has_all_rows_also_where_no_transaction_comes(tmp_path: Path) -> None:
    site = begun(tmp_path, "a 1\nb 11\n- 3\n- 4\n", indexed=None)
    site.graph = bank()
    site.run(most_runs=1)
    assert rows(site)["by_last", "1"] == fs.Set(["a", "b"])


APPLICATION = """\
import flamestream as fs

graph = fs.Graph("bank")
sums = graph.table("sums", initial=int)
{index}


def add(state, number):
    key = number * 7 % 50
    if number % 10 == 0:
        del state[sums, key]
        return key, number
    state[sums, key] += number
    return key, number, state[sums, key]{read}


graph.source("numbers").transact(add).committed.sink("out", key=lambda told: told[0])
"""
PLAIN = {"index": "", "read": ""}
INDEXED = {
    "index": 'by_rest = sums.index("by_rest", key=lambda total: total % 3)',
    "read": ", tuple(state[by_rest, 1])",
}
COUNT = 8000


class Bank:
    """A job whose code and guarantee change between its runs."""

    def __init__(self, folder: Path) -> None:
        self.scratch = Scratch(folder)

    def job(self, guarantee: str, code: dict[str, str]) -> None:
        self.scratch.job(
            APPLICATION.format(**code),
            f"sources: {{numbers: {{generator: {{count: {COUNT}, rate: 400}}}}}}",
            "sinks: {out: {files: {path: out, fsync: false}}}",
            f"guarantee: {guarantee}",
            "workers: {replicas: 2}",
            "checkpoint: {interval: 100ms, store: store}",
        )

    def stopped(
        self, guarantee: str, code: dict[str, str], *options: str, by: signal.Signals = signal.SIGTERM
    ) -> None:
        """A run that a signal ends behind its second epoch."""
        self.job(guarantee, code)
        before = self._epoch()
        run = self.scratch.begin("run", "job.yaml", *options)
        eventually(
            lambda: run.poll() is not None or self._epoch() > before + 1, "epochs are committed", within=200
        )
        assert run.poll() is None, run.communicate()
        if guarantee == "micro-batch":
            assert "in batches of Spark" in self.scratch.type("upgrade", "job.yaml").text
        run.send_signal(by)
        run.communicate(timeout=120)

    def ended(self, guarantee: str, code: dict[str, str], *options: str) -> None:
        """The run that does the rest, and an audit of all."""
        self.job(guarantee, code)
        done = self.scratch.type("run", "job.yaml", *options, within=300)
        assert done.code == 0, done.text
        said = self.scratch.type("audit", "job.yaml")
        assert said.code == 0 and f"{COUNT:,} results, 0 lost, 0 doubled, 0 reordered" in said.text, said.text

    def _epoch(self) -> int:
        indexes = (self.scratch.path / "store/indexes").glob("*")
        return max((int(path.name[:12]) for path in indexes), default=0)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Bank]:
    made = Bank(tmp_path)
    yield made
    made.scratch.close()


@pytest.mark.slow
def test_streams_and_micro_batches_go_on_from_each_others_rows(job: Bank) -> None:
    job.stopped("exactly-once", PLAIN, "--no-spark", "--drain")
    job.stopped("micro-batch", INDEXED, "--changed", "--drain")
    job.stopped("exactly-once", INDEXED, "--no-spark", "--drain")
    job.ended("micro-batch", INDEXED)
    said = job.scratch.type("query", "job.yaml", "by_rest[1]", "--json")
    assert said.code == 0 and json.loads(said.text)["rows"][0]["state"], said.text


@pytest.mark.slow
def test_streams_and_micro_batches_go_on_behind_each_others_deaths(job: Bank) -> None:
    job.stopped("exactly-once", INDEXED, "--no-spark", by=signal.SIGKILL)
    job.stopped("micro-batch", INDEXED, by=signal.SIGKILL)
    job.stopped("exactly-once", INDEXED, "--no-spark", by=signal.SIGKILL)
    job.ended("micro-batch", INDEXED)


@pytest.mark.slow
def test_both_go_on_from_the_rows_that_a_history_has_left(job: Bank, tmp_path: Path) -> None:
    job.job("micro-batch", PLAIN)
    (tmp_path / "history").mkdir()
    pq.write_table(pa.table({"n": pa.array(range(1, 500), pa.int64())}), tmp_path / "history" / "a.parquet")
    said = job.scratch.type("bootstrap", "job.yaml", "numbers=history", within=120)
    assert said.code == 0, said.text
    (tmp_path / "nowhere.yaml").write_text(
        (tmp_path / "job.yaml").read_text() + "  spark: {master: nowhere}\n"
    )  # no Spark would start there
    said = job.scratch.type("run", "nowhere.yaml", "--runner", "batch", within=120)
    assert said.code == 1 and "began with a history, whose state no batch has" in said.text, said.text
    job.stopped("micro-batch", PLAIN)
    job.ended("exactly-once", INDEXED, "--no-spark", "--changed")
