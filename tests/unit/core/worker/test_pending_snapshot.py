"""A pending snapshot: encoded in slices, uploaded in bounded parts, accepted when uploaded and passed by
minimal time; and the word on an epoch, which is a word on all before."""

from collections.abc import Sequence

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.outputs import Outputs
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.core.protocol import actions as act
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.core.worker.epoch_work import EpochWork
from flamestream.core.worker.snapshot import EncodedRows, PendingSnapshot
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Epoch, Fence, Slot
from flamestream.model.time import START, Time

FENCE = Fence(*NO_FENCE)
SETTINGS = WorkerSettings("j", 4, (), slice_size=8)


def _row(operation: int) -> Row:
    return Row(operation, Slot(0), b"k", Epoch(1), True, b"")


def _pending(*rows: Row | None, held: Sequence[Row] = (), upload_bytes: int = 1000) -> PendingSnapshot:
    return PendingSnapshot(
        FENCE, Epoch(1), Time(5), EncodedRows(iter(rows), upload_bytes), [], [], None, (held, ())
    )


def test_a_snapshot_is_encoded_slice_by_slice_without_what_did_not_change() -> None:
    pending = _pending(_row(1), None, _row(2))
    pending.rows.encode(2, 1000)
    assert pending.rows.encoding and pending.upload([]) is None
    pending.rows.encode(2, 1000)
    assert not pending.rows.encoding
    assert pending.upload([]) == act.Upload(FENCE, Epoch(1), [_row(1), _row(2)], [])
    assert pending.upload([]) is None, "once"


def test_a_slice_ends_where_its_bytes_are_full() -> None:
    rows = EncodedRows(map(_row, range(5)), 1000)
    gathered = []
    while rows.encoding:
        rows.encode(10, 2)  # a row is a byte
        gathered.append(len(rows.take()[0]))
    assert gathered == [2, 2, 1]


def test_of_a_great_snapshot_no_more_is_encoded_than_the_upload_behind_the_one_under_way() -> None:
    compact = [SegmentRef("old", 1, "", 1, (Slot(0),))]
    pending = _pending(*map(_row, range(5)), held=[_row(9)], upload_bytes=2)
    uploads: list[act.Upload] = []
    while not uploads or uploads[-1].compact == ():
        _encode(pending)
        uploads += filter(None, [pending.upload(compact)])
        _encode(pending)
        assert pending.upload(compact) is None, "one is under way"
        assert pending.accepted(Time(9)) is None
        pending.uploaded([SegmentRef(f"new{len(uploads)}", 1, "", 1, (Slot(0),))], [])
    assert [[row.operation for row in upload.rows] for upload in uploads] == [[0, 1], [2, 3], [4]]
    assert [list(upload.held) for upload in uploads] == [[], [], [_row(9)]]
    accepted = pending.accepted(Time(9))
    assert accepted is not None and [segment.name for segment in accepted.segments] == [
        "new1",
        "new2",
        "new3",
    ]


def _encode(pending: PendingSnapshot) -> None:
    while pending.rows.encoding:
        pending.rows.encode(1, 1)


def test_a_snapshot_is_accepted_when_both_are_true() -> None:
    pending = _pending()
    _encode(pending)
    assert pending.upload([]) == act.Upload(FENCE, Epoch(1), [], [])
    assert pending.accepted(Time(9)) is None
    pending.uploaded([], ["old"])
    assert pending.accepted(Time(4)) is None
    accepted = pending.accepted(Time(5))
    assert accepted == msg.Accepted(FENCE, Epoch(1), Time(5), [], ["old"], [], [])


def test_the_word_on_an_epoch_is_a_word_on_all_before() -> None:
    cuts = LiveCuts(START)
    work, outputs = (
        EpochWork(FENCE, cuts, {}, SETTINGS, Numbers(Graph("g"))),
        Outputs(FENCE, {}, START, 1, REFERENCE),
    )
    work.announced(Epoch(1), [])
    work.cut(Epoch(1), START, [], outputs)
    assert cuts.announced == (1, START)
    work.aborted(Epoch(3))
    assert cuts.announced is None
    work.cut(Epoch(4), START, [], outputs)
    assert cuts.announced == (4, START) and work.actions == []
    work.announced(Epoch(4), [])
    assert cuts.announced == (4, START), "the announcement of the epoch itself may come behind its cut"
