"""Micro-batches begin where whoever had the job before has ended, or say that they cannot."""

import pytest

import flamestream as fs
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.protocol.snapshot import FrontPosition, Inventory
from flamestream.model.errors import UserError
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, Offset, Partition, SourceName, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START, FrontId, Time, last_below
from flamestream.spark.frames.commit import Committed
from flamestream.spark.frames.inputs import Input, check_places, planner_of
from support.core.coordinating import settings

FRONT = FrontId(0)
CUT = Time(9 << 12)


def checked(position: FrontPosition | None, behind: Time = START) -> None:
    """At a cut with eight runs of two below it, of a source that has begun with the first."""
    front = FrontSettings(FRONT, SourceName("numbers"), True, 2)
    its = Input(0, RecordedSource("job", front, {"generator": {"count": 99}}, behind=behind), True)
    planner = planner_of([its], 4)
    known = () if position is None else (position,)
    check_places(planner, planner.at(planner.begin(), CUT), [its], known)


def position(records: int, offset: int | None = None) -> FrontPosition:
    offsets = {} if offset is None else {Partition(""): Offset(offset)}
    return FrontPosition(FRONT, last_below(CUT, FRONT), offsets, records=records)


def test_the_same_number_of_records_is_no_news() -> None:
    checked(None)
    checked(position(16, 16))
    checked(position(0, 16))  # of an index that has no sums
    checked(position(0), behind=last_below(CUT, FRONT))


@pytest.mark.parametrize("found", [position(0), position(14, 14), position(18, 18)])
def test_a_source_whose_records_have_had_other_times_is_named(found: FrontPosition) -> None:
    with pytest.raises(
        UserError,
        match=rf"source 'numbers': {found.records} of its records are below .* would begin behind 16",
    ):
        checked(found)


def test_a_source_that_has_grown_behind_its_end_is_told_so_where_no_stream_ever_ran() -> None:
    with pytest.raises(UserError, match=r"records have come to it since.* no runner .*reset"):
        checked(position(14, 14))


def test_before_a_first_batch_is_committed_a_source_gets_the_times_that_it_had() -> None:
    layout = Layout(LayoutVersion(1), (WorkerId("b"),), (WorkerId("b"),), WorkerId("b"))
    record = JobRecord(
        attempt=Attempt(2), layout=layout, announced=Epoch(0), committed=Epoch(0), cut=START, index="", index_hash="",
        fronts=(KnownFront("numbers", runs=1),),
    )  # fmt: skip

    def begin(runs: int) -> None:
        ours = Inventory(("numbers",), (), (), ("numbers",), runs={"numbers": runs})
        Committed(record, lambda _: None, "", fs.Graph("numbers"), settings(inventory=ours))

    begin(1)
    with pytest.raises(UserError, match="got its times by the number of a record, 1 at once"):
        begin(64)
