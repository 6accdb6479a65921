"""A recorded journal beside timed sources, cut by global time: each run is in one batch, and a front stands
where the streaming engine's does."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.connectors.files.pieces import Piece, Stamps
from flamestream.connectors.files.windows import NumberWindow, Planner
from flamestream.connectors.recorded import RecordedSource, RecordedWindow
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.settings import FrontSettings
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.front import JournalledFront
from flamestream.model.event_time import ENDED, FOUND
from flamestream.model.ids import Offset, Partition, SourceName
from flamestream.model.payload import encode_many
from flamestream.model.time import START, FrontId, Time, Timestamp, time_of

TIMED, JOURNALLED = FrontId(0), FrontId(3)
NOW = 1_700_000_000_000_000
SOURCE = RecordedSource(
    "job", FrontSettings(JOURNALLED, SourceName("asked()"), False, 0, False, of_call=True), {}
)
GAPS = st.lists(st.integers(1, 10_000_000), max_size=12)
COUNTS = st.lists(st.integers(0, 3), min_size=12, max_size=12)


def journal(gaps: list[int], counts: list[int]) -> list[Entry]:
    """Runs of a call's front; one without records is a marker, the last of which tells the end."""
    entries, at, first = list[Entry](), NOW, 0
    for number, (gap, count) in enumerate(zip(gaps, counts, strict=False)):
        at += gap
        marker = ENDED if number == len(gaps) - 1 else FOUND
        payloads = encode_many(list(range(first, first + count)) if count else [marker])
        entries.append(
            Entry(time_of(Timestamp(at), JOURNALLED), Partition(""), Offset(first), count, payloads)
        )
        first += count
    return entries


def planner(entries: list[Entry], records: int, most: int) -> Planner:
    timed = NumberWindow(Stamps(TIMED, 2), records, None, None)
    return Planner({TIMED: timed}, most, (), {JOURNALLED: RecordedWindow(SOURCE, entries)})


def sizes(piece: Piece) -> list[tuple[Time, int]]:
    return [(time, len(list(records))) for time, _, records in piece.runs()]


@given(GAPS, COUNTS, st.integers(0, 20), st.integers(1, 4))
def test_each_run_is_in_one_batch_and_a_batch_is_bounded(
    gaps: list[int], counts: list[int], records: int, most: int
) -> None:
    entries = journal(gaps, counts)
    plan = planner(entries, records, most)
    cut, found, batches = plan.begin(), list[tuple[Time, int]](), 0
    while (following := plan.next(cut)) != cut:
        pieces = planner(entries, records, most).pieces(cut, following.time)  # as behind a restart
        runs = {
            front: [(time, len(list(its))) for time, _, its in piece.runs()]
            for front, (piece, _) in pieces.items()
        }
        assert all(cut.time <= time < following.time for its in runs.values() for time, _ in its)
        assert len(runs[JOURNALLED]) <= most
        found += sorted(run for its in runs.values() for run in its)
        cut, batches = following, batches + 1
    timed = [(Stamps(TIMED, 2).time(run), min(2, records - 2 * run)) for run in range(-(-records // 2))]
    assert found == timed + [(entry.time, entry.count or 1) for entry in entries]
    assert cut.time == plan.end()
    # a clock's times are not counted up to
    assert batches <= records + len(entries) + 2


@given(GAPS, COUNTS, st.integers(1, 3))
def test_a_front_stands_where_the_engines_stands(gaps: list[int], counts: list[int], most: int) -> None:
    entries = journal(gaps, counts)
    front = JournalledFront(FrontPosition(JOURNALLED, START, {}), tells_time=True)
    front.start(entries, START)
    for _ in entries:
        front.replayed()
    plan, places = planner(entries, 5, most), list[FrontPosition]()
    cut = plan.begin()
    while (following := plan.next(cut)) != cut:
        cut = following
        places = plan.places_at(cut, places)
        assert [place for place in places if place.front == JOURNALLED] == [front.positions.at(cut.time)]


def test_the_end_of_a_timed_source_of_event_time_is_part_of_its_place() -> None:
    plan = Planner({TIMED: NumberWindow(Stamps(TIMED, 2), 4, None, None)}, 1, {TIMED})
    cut, places = plan.begin(), list[FrontPosition]()
    while (following := plan.next(cut)) != cut:
        cut = following
        places += plan.places_at(cut, [])
    stamps = Stamps(TIMED, 2)
    assert [(place.last, place.ended, place.records) for place in places[-3:]] == [
        (stamps.time(0), False, 2), (stamps.time(1), False, 4), (stamps.time(2), True, 4),
    ]  # fmt: skip
