"""A delivering task hands each slot's items over once, whatever another try of it did before, or still
does."""

from contextlib import ExitStack
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from flamestream.connectors import sinks
from flamestream.core.protocol.stored_rows import Known, Numbers
from flamestream.core.worker.requests import INTENDED, NOT_INTENDED
from flamestream.model import payload as codec
from flamestream.model.calls.call import hash_of
from flamestream.model.errors import Fenced, UserError
from flamestream.model.graph import Graph
from flamestream.model.meta import floor, meta_of
from flamestream.model.state_names import number_of_sink
from flamestream.model.time import Time
from flamestream.spark.calls.pairing import ReadRequests
from flamestream.spark.frames.batch import report_of
from flamestream.spark.frames.delivering import REQUESTS, Deliver, SinkPlace, _Delivering, _Task
from flamestream.spark.frames.kept_state import StatePlace, decoded_ref, store_at
from flamestream.spark.frames.rows import HALT, INTENT, SCHEMA, answer_row
from flamestream.spark.frames.slot_output import BEYOND, encoded_item
from flamestream.store.segment import chains_in, part_of
from flamestream.store.snapshots import segment_table

SLOTS, SINK = 4, 7


def plan(folder: Path, attempt: int = 1) -> Deliver:
    return Deliver(
        "job",
        {SINK: SinkPlace("out", {"files": {"path": str(folder), "fsync": False}})},
        SLOTS,
        1,
        attempt,
        compare=True,
    )


def rows(count: int = 60) -> list[tuple[int, int, bytes, bytes, bytes]]:
    rng = Random(1)
    made = [
        (SINK, rng.randrange(SLOTS), b"", meta_of(Time((n + 1) << 12), 0), codec.encode(f"item {n}"))
        for n in range(count)
    ]
    return sorted(made, key=lambda row: row[3])


def batch(of: list[tuple[int, int, bytes, bytes, bytes]]) -> Any:
    return pa.record_batch(
        [pa.array(c, f.type) for c, f in zip(zip(*of, strict=True), SCHEMA, strict=True)], schema=SCHEMA
    )


def begun(deliver: Deliver, tries: int, closing: ExitStack) -> _Delivering:
    return _Delivering(deliver, _Task(0, tries), closing)


def finished(delivering: _Delivering, rest: list[tuple[int, int, bytes, bytes, bytes]]) -> None:
    delivering.take(batch(rest))
    delivering.report()


def held(folder: Path) -> list[tuple[bytes, Any]]:
    return [(meta, value) for meta, _, _, value in sinks.read({"files": {"path": str(folder)}})]


def expected(of: list[tuple[int, int, bytes, bytes, bytes]]) -> list[tuple[bytes, Any]]:
    return sorted((meta, codec.decode(payload)) for _, _, _, meta, payload in of)


def test_a_second_try_goes_on_behind_the_first_and_fences_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flamestream.spark.frames.slot_output.ITEMS_A_CALL", 7)
    every, deliver = rows(), plan(tmp_path / "out")
    with ExitStack() as closing:
        first = begun(deliver, 0, closing)
        first.take(batch(every[:40]))
        second = begun(deliver, 1, closing)
        second.take(batch(every))
        assert second.report().num_rows
        with pytest.raises(Fenced):
            finished(first, every[40:])
    assert held(tmp_path / "out") == expected(every)


def test_from_the_least_errors_run_on_nothing_is_delivered(tmp_path: Path) -> None:
    every = rows()
    errors = [meta_of(Time(at << 12), 3) for at in (21, 31)]
    halts = [(HALT, slot, meta, meta[:8], b"\xc0") for meta in errors for slot in range(SLOTS)]
    with ExitStack() as closing:
        delivering = begun(plan(tmp_path / "out"), 0, closing)
        delivering.take(batch(sorted(halts + every, key=lambda row: row[3])))
        report = delivering.report()
    assert held(tmp_path / "out") == [
        item for item in expected(every) if item[0] < meta_of(Time(21 << 12), 0)
    ]
    assert meta_of(Time(21 << 12), 3) in report.column("last").to_pylist()


@pytest.mark.parametrize("change", ["other", "less", "more", "none"])
def test_a_replay_that_differs_is_refused(tmp_path: Path, change: str) -> None:
    every = rows()
    with ExitStack() as closing:
        delivering = begun(plan(tmp_path / "out"), 0, closing)
        delivering.take(batch(every))
        delivering.report()
    last = max(place for place, row in enumerate(every) if row[1] == 2)
    to, slot, key, meta, payload = every[last]
    changed = {
        "other": [*every[:last], (to, slot, key, meta, codec.encode("other")), *every[last + 1 :]],
        "less": every[:last] + every[last + 1 :],
        "more": [*every[:last], (to, slot, key, meta[:8] + b"\x00\x00", payload), *every[last:]][: last + 1]
        + every[last:],
        "none": [row for row in every if row[1] != 2],
    }[change]
    changed.sort(key=lambda row: row[3])
    if change == "more":
        changed.insert(last, (to, slot, key, every[last - 1][3] + b"\x01", payload))
    with ExitStack() as closing:
        delivering = begun(plan(tmp_path / "out", attempt=2), 0, closing)
        with pytest.raises(UserError, match="sink 'out', slot 2: "):
            finished(delivering, changed)


@pytest.mark.parametrize("ends_at", [1, 29, 30, 58])
def test_a_batch_may_end_before_the_one_that_died(tmp_path: Path, ends_at: int) -> None:
    """What that one has delivered above is the next batch's to compare; below, nothing may lack."""
    every, end = rows(), floor(Time((ends_at + 1) << 12))
    two = [row for row in every if row[3] < end], [row for row in every if row[3] >= end]
    for attempt, (some, since, until) in enumerate(
        [(every, b"", BEYOND), (two[0], b"", end), (two[1], end, BEYOND)]
    ):
        with ExitStack() as closing:
            deliver = replace(plan(tmp_path / "out", attempt + 1), floor=since, until=until)
            finished(begun(deliver, 0, closing), some)
    assert held(tmp_path / "out") == expected(every)
    with ExitStack() as closing:
        delivering = begun(replace(plan(tmp_path / "out", 9), floor=end, until=BEYOND), 0, closing)
        with pytest.raises(UserError, match="sink 'out', slot"):
            finished(delivering, two[1][:-1])


def test_a_spliced_item_is_the_encoded_item() -> None:
    for length in (9, 255, 256, 70_000 & 0xFFFF):
        meta = bytes(length)
        assert encoded_item(meta, codec.encode(("x", 1))) == codec.encode_item(meta, ("x", 1))


CALL = SINK + 1


def asked(number: int, *, intended: bool = False) -> tuple[int, int, bytes, bytes, bytes]:
    """A request: a row for a call's sink."""
    return CALL, number % SLOTS, INTENT if intended else b"", meta_of(Time(number), 0), codec.encode(number)


def answered(number: int, said: Any = None) -> tuple[int, int, bytes, bytes, bytes]:
    payload = codec.encode(number if said is None else said)
    return answer_row(CALL), 0, hash_of(payload), meta_of(Time(number), 0), b""


def intent(number: int) -> tuple[int, int, bytes, bytes, bytes]:
    return answer_row(CALL), 0, b"", meta_of(Time(number), 0), INTENT


def delivered(folder: Path, items: list[tuple[int, int, bytes, bytes, bytes]], **fields: Any) -> list[Row]:
    """The report of a task that has these rows, sorted as Spark sorts them."""
    with ExitStack() as closing:
        delivering = begun(replace(plan(folder), calls={CALL: "asked()"}, **fields), 0, closing)
        delivering.take(batch(sorted(items, key=lambda row: row[3])))
        return [Row(**line) for line in delivering.report().to_pylist()]


def test_requests_of_calls_go_nowhere_and_those_without_an_answer_are_counted(tmp_path: Path) -> None:
    lines = delivered(tmp_path, [*rows(), *map(asked, range(1, 5)), answered(2), answered(3), intent(4)])
    found = report_of(None, lines)  # type: ignore[arg-type]  # it has no problem to tell
    assert (found.delivered, found.unanswered) == (60, 2)


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([asked(1), answered(1, said=7)], "asked something else when it was answered"),
        ([asked(1), answered(2)], "was answered, and nothing here asks it"),
    ],
)
def test_an_answer_to_something_else_is_refused_with_its_call(tmp_path: Path, items: Any, told: str) -> None:
    with pytest.raises(UserError, match=rf"call asked\(\): .* {told}"):
        delivered(tmp_path, items)


def test_answers_behind_an_error_that_ends_the_job_are_not_looked_at(tmp_path: Path) -> None:
    end = meta_of(Time(5), 0)
    lines = delivered(tmp_path, [asked(1), answered(1), (HALT, 0, end, end[:8], b""), answered(6)])
    assert [line.to for line in lines if line.slot == -1 and line.to < 0] == [HALT]


def test_requests_without_an_answer_are_what_a_stream_would_have_in_its_snapshot(tmp_path: Path) -> None:
    """And come back as rows, with whether their intent is below the cut."""
    numbers = Numbers(Graph("g"), {CALL: "asked()"})
    place = StatePlace(str(tmp_path / "store"), (), numbers, Known({}))
    items = [asked(1), answered(1), asked(2), intent(2), asked(3, intended=True), asked(4)]
    lines = delivered(tmp_path, items, earlier=place, epoch=3)
    refs = tuple(decoded_ref(line.payload) for line in lines if line.to == REQUESTS)
    (ref,) = refs
    chains = chains_in([part_of(segment_table(store_at(place.store), ref))])
    states = [(chain.operation, chain.slot, chain.key, chain.states) for chain in chains]
    assert sorted(states, key=itemgetter(2)) == [
        (number_of_sink("asked()"), number % SLOTS, meta_of(Time(number), 0), (flag + codec.encode(number),))
        for number, flag in ((2, INTENDED), (3, INTENDED), (4, NOT_INTENDED))
    ]
    places = [pa.record_batch([pa.array([0], pa.int64())], names=["id"])]
    (again,) = ReadRequests(place.store, refs, numbers)(places)
    read = sorted(zip(*(column.to_pylist() for column in again.columns), strict=True), key=itemgetter(3))
    assert read == [asked(2, intended=True), asked(3, intended=True), asked(4)]
