"""State and output as Spark tables, and the audit as a Spark job, against what the reference says."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flamestream.audit.reference_rows import ReferenceJob
from flamestream.audit.reference_rows import rows_of as reference_rows
from flamestream.connectors.files.chunks import chunks_of
from flamestream.connectors.files.cut_files import ALL, Reading, in_pieces, saved_at
from flamestream.connectors.files.formats import Mark
from flamestream.connectors.files.pieces import Stamps
from flamestream.connectors.files.spec import FilesSpec
from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.log import encode_record
from flamestream.model import payload as codec
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, Slot
from flamestream.model.meta import LEAST, Meta, child
from flamestream.model.time import END, FrontId
from flamestream.reference import Walk
from flamestream.simulation import graphs
from flamestream.spark.frames.inputs import pieces_of
from flamestream.spark.frames.saved_input import save_input
from flamestream.spark.tables import register
from flamestream.spark.tables.history import Due, Findings, History
from support.frames.frame_jobs import Site, graph_of, lines
from support.frames.session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.frames]
APPLICATION = """
import sys
sys.path[:0] = {path!r}
from random import Random
from flamestream.simulation import graphs
from support.frames.frame_jobs import graph_of
graph = graph_of(lambda s: graphs.concatenation(Random(1), s), lambda s: graphs.windows(Random(2), s), sources=2)
"""
MANIFEST = """
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: frames}
spec:
  application: {file: tables_app.py, graph: graph}
  sources: {s0: {files: {path: s0.txt, records: lines}}, s1: {files: {path: s1.txt, records: lines}}}
  sinks: {out: {files: {path: out}}}
  workers: {replicas: 2, slots: 16}
  checkpoint: {interval: 1s, store: store}
  guarantee: micro-batch
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A job that has run to its end in micro-batches."""
    path = tmp_path_factory.mktemp("tables")
    graph = graph_of(lambda s: graphs.concatenation(Random(1), s), lambda s: graphs.windows(Random(2), s))
    found = Site(path, graph, dead_letter=None, texts=[lines(1, 41), lines(2, 23)])
    found.run(most_runs=8)
    (path / "job.yaml").write_text(MANIFEST)
    (path / "tables_app.py").write_text(APPLICATION.format(path=[str(Path(__file__).parents[2])]))
    register(spark_session())
    return found


def table(site: Site, **options: Any) -> Any:
    reader = spark_session().read.format("flamestream").option("manifest", str(site.path / "job.yaml"))
    return reader.options(**{"runFolder": str(site.path / "none"), **options}).load()


def test_the_state_table_is_the_reference_interpreters_state(site: Site) -> None:
    walk = Walk(site.graph)
    runs = sorted((run for each in site.job.inputs for run in each.source.below(END)), key=lambda run: run[0])
    sources = dict(enumerate(site.graph.sources))
    for time, records in runs:
        walk.run(sources[time & 0xFFF], time, records)
    windows = {v.id: v.window - 1 for v in site.graph.vertices if v.window}
    expected = {
        (operation, key): codec.encode(state[-windows[operation] :] if operation in windows else state)
        for (operation, key), state in walk.state.items()
        if windows.get(operation, 1)
    }
    rows = table(site).collect()
    assert {(row.operation, bytes(row.key_canonical)): bytes(row.state_canonical) for row in rows} == expected
    assert {json.loads(row.key) for row in rows} == {codec.decode(key) for _, key in expected}


def test_the_output_table_is_what_was_delivered_in_the_order_of_metas(site: Site) -> None:
    rows = table(site, sink="out", columns="true").orderBy("meta").collect()
    assert [(bytes(row.meta), bytes(row.payload_canonical)) for row in rows] == site.expected()["out"]
    assert [(row._0, row._1) for row in rows] == [tuple(json.loads(row.payload)) for row in rows]


def test_an_epoch_or_a_cut_bounds_the_output(site: Site) -> None:
    found = site.records.read()
    assert found is not None
    every = table(site, sink="out").count()
    middle = 20 << 12
    before, after = (
        table(site, sink="out", cut=middle).count(),
        table(site, sink="out", fromCut=middle).count(),
    )
    assert 0 < before < every and before + after == every
    assert table(site, sink="out", epoch=found[0].committed).count() == every


def test_slots_are_read_alone_by_option_and_by_a_pushed_filter(site: Site) -> None:
    every = table(site).collect()
    some = {row.slot for row in every if row.slot < 8}
    assert some and {row.slot for row in table(site, slots="0-7").collect()} == some
    pushed = table(site, pushDown="true").where("slot < 8")
    assert {row.slot for row in pushed.collect()} == some
    assert "Filter (slot" not in pushed._jdf.queryExecution().executedPlan().toString(), (
        "Spark filters again what the source has left out"
    )


def test_a_filtered_query_leaves_others_over_the_same_table_alone(site: Site) -> None:
    frame = table(site)
    halves = frame.where("slot < 8").union(frame.where("slot >= 8")).count()
    assert halves == frame.count()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sinc": "out"}, "unknown option 'sinc'"),
        ({"sink": "elsewhere"}, "there is no sink 'elsewhere'; it has out"),
        ({"epoch": "999"}, "no snapshot of epoch 999 of job 'frames'"),
        ({"sink": "out", "epoch": "999"}, "no snapshot of epoch 999"),
        ({"slots": "all"}, "slots"),
        ({"manifest": "nowhere.yaml"}, "cannot be read as a manifest"),
    ],
)
def test_what_is_not_there_is_named(site: Site, options: dict[str, str], says: str) -> None:
    with pytest.raises(Exception, match=says):
        table(site, **options).count()


# --- audit --------------------------------------------------------------------------------------------------


def audited(site: Site, below: Meta | None = None) -> Findings:
    """Against the reference in each partition of keys."""
    job = site.job
    sinks = {number: place.name for number, place in job.sink_places().items()}
    chunks = [(number, chunk) for number in sinks for chunk in chunks_of(site.path / sinks[number])]
    history = History(spark_session(), sinks, chunks)
    meaning = ReferenceJob(job.graph, job.slots, job.dead_letter is None)
    expected = reference_rows(spark_session(), meaning, pieces_of(spark_session(), job.inputs), partitions=2)
    return history.compared(expected, Due() if below is None else Due(below))


def test_the_audit_finds_nothing_wrong_with_a_right_history(site: Site) -> None:
    results = len(site.expected()["out"])
    assert audited(site) == Findings(results, results, 0, 0, 0, 0, 0, 0, "")
    assert audited(site, LEAST) == Findings(results, results, 0, 0, 0, 0, 0, 0, "")


def test_the_audit_counts_what_is_lost_doubled_foreign_and_out_of_order(tmp_path: Path) -> None:
    graph = graph_of(lambda s: graphs.concatenation(Random(1), s), sources=1)
    site = Site(tmp_path, graph, dead_letter=None, texts=[lines(1, 40)])
    site.batch()
    last = {bundle.slot: bundle for chunk in chunks_of(tmp_path / "out") for bundle in chunk.bundles()}
    bundle = max(last.values(), key=lambda each: len(each.items))
    first, payload = codec.decode_items(bundle.items)[0]
    strange = child(bundle.t_last, 0)  # type: ignore[arg-type]
    items = codec.encode_items([(first, payload), (strange, ("x", "y"))])
    again = Bundle(Slot(bundle.slot), SequenceNumber(bundle.sequence + 1), strange, items)
    log = next(path for path in (tmp_path / "out").glob("attempt-*.log") if path.stat().st_size)
    with log.open("ab") as file:
        file.write(encode_record(Fence(Attempt(1), LayoutVersion(1)), 99, [again]))
    (tmp_path / "s0.txt").write_text((tmp_path / "s0.txt").read_text() + "a 40\n")
    found = audited(site)
    assert (found.lost, found.doubled, found.foreign, found.reordered) == (1, 1, 1, 0)
    assert found.first_difference.startswith("doubled in sink 'out': slot ")


def test_a_bundle_that_is_gone_is_an_error(tmp_path: Path) -> None:
    site = Site(
        tmp_path,
        graph_of(lambda s: graphs.concatenation(Random(1), s), sources=1),
        dead_letter=None,
        texts=[lines(1, 40)],
    )
    site.batch()
    bundle = next(bundle for chunk in chunks_of(tmp_path / "out") for bundle in chunk.bundles())
    beyond = Bundle(
        Slot(bundle.slot), SequenceNumber(bundle.sequence + 99), Meta(bundle.t_last), bundle.items
    )
    log = next(path for path in (tmp_path / "out").glob("attempt-*.log") if path.stat().st_size)
    with log.open("ab") as file:
        file.write(encode_record(Fence(Attempt(1), LayoutVersion(1)), 99, [beyond]))
    with pytest.raises(Corrupt, match="is a log missing"):
        audited(site)


# --- frames as input ----------------------------------------------------------------------------------------


def test_a_saved_frame_is_a_bounded_source_in_its_order(tmp_path: Path) -> None:
    frame = (
        spark_session()
        .range(100)
        .selectExpr("(id * 37) % 100 as place", "concat('k', id % 3) as key", "array(id, id + 1) as numbers")
    )
    assert save_input(frame, str(tmp_path / "saved"), ["place"]) == 100
    rows = [payload for payload, _ in rows_of(tmp_path / "saved")]
    assert [row[0] for row in rows] == list(range(100)) and rows[37] == (37, "k1", (1, 2))
    with pytest.raises(UserError, match="inputs are saved once"):
        save_input(frame, str(tmp_path / "saved"), ["place"])


def test_a_column_that_no_payload_can_hold_is_refused_by_its_name(tmp_path: Path) -> None:
    save = spark_session().sql("select 1 as id, date'2026-01-01' as day").write
    save.parquet(str(tmp_path / "dates"))
    with pytest.raises(UserError, match=r"column 'day' of .* is date32"):
        rows_of(tmp_path / "dates")
    assert rows_of(tmp_path / "dates", columns=["id"]) == [(1, 0)]


def rows_of(path: Path, **fields: Any) -> list[tuple[Any, int]]:
    """(payload, its number) of a saved frame."""
    reading = Reading.of(FilesSpec(**saved_at(str(path)), **fields), "t", "")
    found = reading.place().listing(settled_only=True)
    counts = [reading.skip(file, Mark(), ALL) for file in found]
    pieces = in_pieces(Stamps(FrontId(0), 1), found, counts, reading)
    payloads = [record for piece in pieces for _, _, records in piece.runs() for record in records]
    return [(payload, number) for number, payload in enumerate(payloads)]
