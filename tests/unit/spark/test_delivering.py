"""A delivering task hands each slot's items over once, whatever another try of it did before, or still
does."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from flamestream.connectors import sinks
from flamestream.model import payload as codec
from flamestream.model.errors import Fenced, UserError
from flamestream.model.meta import meta_of
from flamestream.model.time import Time
from flamestream.spark.frames.batch import report_of
from flamestream.spark.frames.delivering import Deliver, SinkPlace, _Delivering, _Task
from flamestream.spark.frames.rows import HALT, SCHEMA
from flamestream.spark.frames.slot_output import encoded_item

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


def test_a_spliced_item_is_the_encoded_item() -> None:
    for length in (9, 255, 256, 70_000 & 0xFFFF):
        meta = bytes(length)
        assert encoded_item(meta, codec.encode(("x", 1))) == codec.encode_item(meta, ("x", 1))


def test_requests_of_calls_are_counted_and_go_nowhere(tmp_path: Path) -> None:
    asks = [(SINK + 1, 0, b"", meta_of(Time(n + 1), 0), codec.encode(n)) for n in range(3)]
    with ExitStack() as closing:
        delivering = begun(replace(plan(tmp_path), requests=frozenset({SINK + 1})), 0, closing)
        delivering.take(batch([*rows(), *asks]))
        lines = [Row(**line) for line in delivering.report().to_pylist()]

    class Answered:
        def answered(self) -> int:
            return 1

    found = report_of(Answered(), lines)  # type: ignore[arg-type]
    assert (found.delivered, found.unanswered) == (60, 2)
