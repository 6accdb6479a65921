"""What a worker tells of its time is of the time since it told last, and no more than a coordinator takes."""

import msgspec
import pytest

import flamestream as fs
from flamestream.core.dataflow.meter import Cost, OperationCount
from flamestream.core.dataflow.tables.contention import Contended
from flamestream.core.protocol.messages import MOST_KEYS, MOST_SLOTS, Busy, Operation
from flamestream.model import payload as codec
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Slot
from flamestream.model.time import FrontId, Instant
from flamestream.node.busy_meter import REPORT_US, BusyMeter

FENCE = Fence(Attempt(1), LayoutVersion(1))
FRONT = FrontId(0)
GRAPH = fs.Graph("g")
GRAPH.source("in").map(len).sink("out")
NOTHING = [Operation(name) for name in ("0 in", "1 map len", "2 out")]
MS = 1000


class Flow:
    """A dataflow that has cost what the test says."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []
        self.rows: tuple[tuple[bytes, int], ...] = ()
        self.operations = [OperationCount(0, 0, 0, 0)] * 3

    def contended(self) -> Contended:
        return Contended(rows=self.rows)

    def by_operation(self) -> list[OperationCount]:
        return self.operations

    def measured(self) -> list[Cost]:
        costs, self.costs = self.costs, []
        return costs


class Metered:
    def __init__(self, private: bool = False) -> None:
        self.flow, self.waited, self.now = Flow(), 0, Instant(0)
        self.meter = BusyMeter(self.flow, GRAPH, lambda: self.waited, self.now, private=private)
        assert self.meter.report(FENCE, self.now) is None, "what was before is of another fence"

    def after(self, us: int, waited: int, *costs: Cost) -> Busy | None:
        self.now, self.waited = Instant(self.now + us), self.waited + waited
        self.flow.costs += costs
        return self.meter.report(FENCE, self.now)


def test_spans_of_traces_are_told_since_the_beginning() -> None:
    counts = [7, 2]
    meter = BusyMeter(
        Flow(), GRAPH, lambda: 0, Instant(0), private=False, spans=lambda: (counts[0], counts[1])
    )
    assert meter.report(FENCE, Instant(0)) is None
    told = meter.report(FENCE, Instant(REPORT_US))
    assert told is not None and (told.spans, told.spans_dropped) == (7, 2)


@pytest.mark.parametrize("private", [False, True])
def test_contended_rows_are_told_in_words_unless_keys_are_private(private: bool) -> None:
    metered = Metered(private)
    metered.flow.rows = tuple((codec.encode(("accounts", name)), 9 - at) for at, name in enumerate("abcdef"))
    told = metered.after(REPORT_US, 0)
    assert told is not None
    assert told.rows == (
        [] if private else [(f"accounts[{name!r}]", 9 - at) for at, name in enumerate("abcd")]
    )


def test_the_time_in_which_the_loop_did_not_wait_is_busy() -> None:
    metered = Metered()
    assert metered.after(REPORT_US, 500 * MS) == Busy(
        FENCE, REPORT_US, REPORT_US - 500 * MS, operations=NOTHING
    )
    assert metered.after(REPORT_US, REPORT_US) == Busy(FENCE, REPORT_US, 0, operations=NOTHING)


def test_it_is_not_told_more_often_than_people_want_to_know() -> None:
    metered = Metered()
    assert metered.after(REPORT_US - 1, 0) is None
    assert metered.after(1, 0) is not None
    assert metered.after(1, 0) is None


def test_the_slots_that_cost_most_come_first_and_the_others_as_a_sum() -> None:
    costs: list[Cost] = [(Slot(number), (number + 1) * 1_000_000, None) for number in range(MOST_SLOTS + 2)]
    report = Metered().after(REPORT_US, 0, *costs)
    assert report is not None
    assert report.slots[0] == (MOST_SLOTS + 1, (MOST_SLOTS + 2) * 1000)
    assert (len(report.slots), report.rest_us) == (MOST_SLOTS, 1000 + 2000)


def test_frequent_keys_are_told_in_words_and_not_where_others_read_them() -> None:
    costs: list[Cost] = [
        (Slot(number), 10_000_000 - number, codec.encode(f"key-{number}" * 40)) for number in range(9)
    ]
    report, private = Metered().after(REPORT_US, 0, *costs), Metered(True).after(REPORT_US, 0, *costs)
    assert report is not None and private is not None
    assert [slot for slot, _ in report.keys] == list(range(MOST_KEYS))
    assert all(key.startswith(f"'key-{slot}") and len(key) <= 80 for slot, key in report.keys)
    assert private.keys == []
    # a coordinator takes it as it is
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=Busy) == report


def test_what_was_measured_for_an_older_attempt_is_forgotten() -> None:
    metered, newer = Metered(), Fence(Attempt(2), LayoutVersion(2))
    metered.flow.costs = [(Slot(1), 5_000_000, None)]
    assert metered.meter.report(newer, Instant(REPORT_US)) is None
    assert metered.meter.report(newer, Instant(2 * REPORT_US)) == Busy(
        newer, REPORT_US, REPORT_US, operations=NOTHING
    )


def test_a_source_without_credit_could_give_more() -> None:
    metered = Metered()
    metered.meter.pulled(FRONT, 0, Instant(500 * MS))
    metered.meter.pulled(FRONT, 0, Instant(700 * MS))
    report = metered.after(REPORT_US, 0)
    assert report is not None and report.held_us == REPORT_US - 500 * MS
    metered.meter.pulled(FRONT, 5, Instant(REPORT_US + 300 * MS))
    report = metered.after(REPORT_US, 0)
    assert report is not None and report.held_us == 300 * MS
    report = metered.after(REPORT_US, 0)
    assert report is not None and report.held_us == 0


def test_where_others_read_the_status_the_log_has_the_key_of_a_hot_slot_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metered, hot = Metered(True), (Slot(3), 1_500_000_000, codec.encode("whale"))
    with caplog.at_level("INFO"):
        for _ in range(3):
            metered.after(REPORT_US, 0, hot, (Slot(4), 1_000_000, codec.encode("fish")))
    (record,) = caplog.records
    assert (record.__dict__["slot"], record.__dict__["key"]) == (3, "'whale'")
