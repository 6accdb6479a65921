"""Job record, snapshot index, and the three kinds of segments: state, held output, requests."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

import flamestream as fs
from flamestream.core.dataflow.accumulators import to_store
from flamestream.core.dataflow.held_outputs import _row, bundle_in
from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.snapshot import (
    CodeSpan,
    FrontPosition,
    Inventory,
    SegmentRef,
    SlotOutput,
    SnapshotIndex,
)
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.core.worker.requests import Requests
from flamestream.model.calls.call import Intent, hash_of
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.layout import Layout
from flamestream.model.meta import meta_of
from flamestream.model.payload import decode, encode, encode_items
from flamestream.model.payloads.exact import exact
from flamestream.model.payloads.shapes import PayloadClass
from flamestream.model.state_names import Operation, number_of
from flamestream.model.time import START, FrontId, Time
from flamestream.store.folder import LocalStore
from flamestream.store.segment import chains_in, part_of, read_segment, table_of, written
from flamestream.store.snapshot_index import read_index, write_index
from flamestream.store.snapshots import checksum_of
from flamestream.store.zookeeper import ZooKeeperJobRecords
from support.golden.format import Format
from support.golden.nodes import Nodes

FENCE: Final = Fence(Attempt(3), LayoutVersion(2))
EPOCH: Final = Epoch(5)

NAMELESS: Final = JobRecord(
    attempt=Attempt(3),
    layout=Layout(LayoutVersion(2), (WorkerId("a"), WorkerId("b")), (WorkerId("a"),), WorkerId("b")),
    announced=Epoch(6), committed=EPOCH, cut=Time(9 << 12), index="visits/indexes/5", index_hash="5e", job="visits",
    outcome="", code="abc", writer="n1",
)  # fmt: skip
"""Before fronts had names, and code was taken back."""
UNHELD: Final = replace(
    NAMELESS,
    taken_back="def",
    fronts=(
        KnownFront("docs"),
        KnownFront("old", away=True),
        KnownFront("clock every 1s", Time(4096), again=True),
        KnownFront("new", None),
    ),
)
"""Before it could be another job's."""
UNTIMED: Final = replace(UNHELD, outcome="handed over to shop", holder="shop")
"""Before fronts said how their times are made."""
RECORD: Final = replace(
    UNTIMED,
    fronts=tuple(
        replace(front, runs=runs) for front, runs in zip(UNTIMED.fronts, (64, 1, 0, None), strict=True)
    ),
)


def _ref(name: str, rows: int) -> SegmentRef:
    return SegmentRef(f"visits/segments/{name}.parquet", 700, "5e9", rows, (Slot(0), Slot(3)))


ORDERED: Final = SnapshotIndex(
    job="visits", graph="g1", python="3.11", slots=4, epoch=EPOCH, fence=FENCE, cut=Time(9 << 12),
    segments=(_ref("000000000005-3-a-1", 3),),
    fronts=(
        FrontPosition(
            FrontId(0), Time(8 << 12), {Partition("p/1"): Offset(90)}, ended=True, records=12, skipped=2
        ),
        FrontPosition(FrontId(1), START, {}),
    ),
    outputs=(SlotOutput(SinkName("out"), Slot(1), SequenceNumber(2), b"\0meta"),),
    held=(_ref("000000000005-3-a-2", 1),), requests=(_ref("000000000005-3-a-3", 1),),
    code=(CodeSpan(START, "abc"), CodeSpan(Time(4096), "def")),
    inventory=Inventory(
        ("docs", "clock every 1s"), (SinkName("out"),),
        (
            Operation(number_of("visits"), "visits", "a fold"),
            Operation(number_of("old"), "new", "the last 3", place=2, was="old", since=4),
        ),
    ),
)  # fmt: skip
"""Before fronts had names."""
assert ORDERED.inventory is not None
FRONTED: Final = replace(
    ORDERED, fronts=(*ORDERED.fronts, FrontPosition(FrontId(2), Time(8 << 12), {}, begins=Time(4096))),
    inventory=replace(ORDERED.inventory, fronts=("clock every 1s", "old", "docs")),
)  # fmt: skip
"""Before it had the fields of payload classes, and versions of states."""
assert FRONTED.inventory is not None
SHAPED: Final = replace(
    FRONTED,
    inventory=replace(
        FRONTED.inventory,
        operations=(
            replace(FRONTED.inventory.operations[0], version=3, versions=((2, 2), (4, 3))),
            *FRONTED.inventory.operations[1:],
        ),
        classes=(
            PayloadClass("shop:Visit", ("user: str", "hits: int"), unmarked=True),
            PayloadClass("shop:Visit", ("user: str", "hits: int")),
            PayloadClass(
                "shop:Visit", ("user: str", "count: float", "last: str | None"), ("last",),
                {"count": ("hits",)},
            ),
        ),
    ),
)  # fmt: skip
"""Before it said how many records of each source have one time."""
assert SHAPED.inventory is not None
INDEX: Final = replace(
    SHAPED,
    inventory=replace(SHAPED.inventory, runs={"clock every 1s": 0, "old": 64, "docs": 1}),
)  # fmt: skip
PLACED: Final = replace(ORDERED, inventory=None)
"""Before operations had names."""
CODELESS: Final = replace(
    PLACED, code=(), requests=(),
    fronts=(
        FrontPosition(FrontId(0), Time(8 << 12), {Partition("p/1"): Offset(90)}),
        FrontPosition(FrontId(1), START, {}),
    ),
)  # fmt: skip
"""Before an index said which application made what, had requests, and counted records."""


def _write_record(folder: Path, record: JobRecord) -> None:
    records = ZooKeeperJobRecords(Nodes(folder), "visits")
    assert records.compare_and_set(record, None) == 0


def _read_record(folder: Path) -> JobRecord | None:
    found = ZooKeeperJobRecords(Nodes(folder), "visits").read()
    return None if found is None else found[0]


def _write_index(folder: Path, index: SnapshotIndex) -> None:
    write_index(LocalStore(folder, create=True), "index.json", index)


def _read_index(folder: Path) -> SnapshotIndex:
    store = LocalStore(folder)
    return read_index(store, "index.json", checksum_of(store.get("index.json")))


# --- segments -----------------------------------------------------------------------------------------------

_MAP: Final = fs.Map({"a": 1, "b": (2, None), **{f"k{n}": n for n in range(20)}})
_SET: Final = fs.Set(["x", "y"])
_VECTOR: Final = fs.Vector([1, "two", 3.0])
_HISTORIES: Final = (
    (0, b"\xa1m", (_MAP, _MAP.set("a", -1).delete("k3").set("new", fs.Set([True])))),
    (1, b"\xa1s", (_SET, _SET.add("z").discard("x"))),
    (2, b"\xa1v", (_VECTOR, _VECTOR.set(0, 7).append(b"tail"))),
    (3, b"\xa1t", ((_VECTOR, 1), (_VECTOR.append(0), 1), (_VECTOR.append(0).append(1), 2))),
    (3, b"\xa1i", (5,)),
)
"""Slot, key, and the key's states at the epochs 1, 2, ...: rows behind the first are changes."""
States = dict[tuple[int, int, bytes], tuple[Any, ...]]


def _states(operation: int) -> States:
    return {(operation, slot, key): states for slot, key, states in _HISTORIES}


def _put(folder: Path, rows: list[Row]) -> None:
    (folder / "segment.parquet").write_bytes(written(table_of(rows)))


def _chains(folder: Path) -> list[Chain]:
    return chains_in([part_of(read_segment((folder / "segment.parquet").read_bytes()))])


def _write_segment(folder: Path, states: States) -> None:
    rows = []
    for (operation, slot, key), its in states.items():
        for epoch, (before, state) in enumerate(zip((None, *its), its, strict=False), 1):
            full, data = to_store(before, state, 1000 if epoch > 1 else 0, 0)
            assert full == (epoch == 1), "the rows behind the first are changes"
            rows.append(Row(operation, Slot(slot), key, Epoch(epoch), full, data))
    _put(folder, rows)


def _read_segment(folder: Path) -> States:
    """Each key's state behind each of its rows."""
    return {
        (chain.operation, chain.slot, chain.key): tuple(
            Reading().accumulator(chain.states[:count]) for count in range(1, len(chain.states) + 1)
        )
        for chain in _chains(folder)
    }


def _graph() -> fs.Graph:
    graph = fs.Graph("golden")
    graph.source("docs").call(_asked).sink("out")
    return graph


@fs.call(doubt="never")
async def _asked(word: str) -> str:
    return word


_GRAPH: Final = _graph()
_NUMBERS: Final = Numbers(_GRAPH)
_OUT: Final = next(vertex.id for vertex in _GRAPH.sinks if vertex.name == "out")
_ASKING: Final = next(iter(_GRAPH.calls.values()))
BUNDLES: Final = [
    Bundle(Slot(1), SequenceNumber(1), meta_of(Time(4096), 0), encode_items([(meta_of(Time(4096), 0), "a")])),
    Bundle(
        Slot(1),
        SequenceNumber(2),
        meta_of(Time(8192), 1),
        encode_items([(meta_of(Time(8192), 1), (1, None))]),
    ),
]
ASKED: Final = {
    (Slot(0), meta_of(Time(4096), 0), "never asked"): False,
    (Slot(3), meta_of(Time(4096), 1), "was about to be asked"): True,
}
"""Slot, meta and payload of requests, and whether each has an intent."""


def _write_held(folder: Path, bundles: list[Bundle]) -> None:
    _put(folder, _NUMBERS.rows_of_sinks(_row(_OUT, bundle, EPOCH) for bundle in bundles))


def _read_held(folder: Path) -> list[Bundle]:
    chains = _NUMBERS.for_sinks(_chains(folder))
    assert {chain.operation for chain in chains} == {_OUT}
    return [bundle_in(chain) for chain in chains]


def _requests(cut: int) -> Requests:
    return Requests(_ASKING, [FrontId(1)], Time(cut), wait_for_commit=False)


def _write_requests(folder: Path, asked: dict[tuple[Slot, Any, str], bool]) -> None:
    requests = _requests(START)
    requests.put([(meta, slot, payload) for slot, meta, payload in asked])
    for (_, meta, payload), intended in asked.items():
        if intended:
            requests.entered(Time(8192), Intent(meta, hash_of(encode(payload))))
    _put(folder, _NUMBERS.rows_of_sinks(requests.rows(EPOCH, Time(9 << 12))))


def _read_requests(folder: Path) -> dict[tuple[Slot, Any, str], bool]:
    requests = _requests(9 << 12)
    requests.held(_NUMBERS.for_sinks(_chains(folder)))
    return {
        (each.slot, each.meta, decode(each.payload)): each.intended is not None
        for each in requests.next_ones()
    }


def _exact(states: States) -> dict[tuple[int, int, bytes], list[Hashable]]:
    return {key: [exact(state) for state in its] for key, its in states.items()}


SNAPSHOTS: Final = (
    Format("job-record", _write_record, _read_record, (NAMELESS, UNHELD, UNTIMED, RECORD)),
    Format("snapshot-index", _write_index, _read_index, (CODELESS, PLACED, ORDERED, FRONTED, SHAPED, INDEX)),
    Format("segment", _write_segment, _read_segment, (_states(2), _states(number_of("visits"))), _exact),
    Format("held-output", _write_held, _read_held, (BUNDLES, BUNDLES)),
    Format("requests", _write_requests, _read_requests, (ASKED, ASKED)),
)
