"""A worker of native parts does what a worker of reference parts does, action by action, with state that
grows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.native_vertices import of_others
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import events, messages
from flamestream.core.protocol.chain import chains_of
from flamestream.model import ready
from flamestream.model.errors import UserError
from flamestream.model.event_time import Dated
from flamestream.model.expressions import expression
from flamestream.model.ids import Epoch, Offset, Partition
from flamestream.model.kernel import kernel
from flamestream.model.meta import meta_of
from flamestream.model.time import Time
from flamestream.model.windows.marks import progress_of
from flamestream.model.windows.stream import Events
from support.core.one_worker import FENCE, FRONT, OneWorker

pytestmark = pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)


def growing(vector: Any, record: Any) -> Any:
    """Mostly appends; now and then something that is no append."""
    if record[1] % 50 == 49 and len(vector):
        return vector.set(len(vector) // 2, record).pop()
    return vector.append(record)


def graphs() -> dict[str, fs.Graph]:
    vectors, windows, fails = fs.Graph("vectors"), fs.Graph("windows"), fs.Graph("fails")
    records = vectors.source("docs")
    records.reduce(
        key=lambda r: r[0], initial=fs.Vector, combine=growing, emit=lambda v, r: (r, len(v))
    ).sink("out")
    words = windows.source("docs").flat_map(lambda r: [r, (r[0], r[1] + 1)])
    words.group(3, key=lambda r: r[0]).map(lambda w: w[-1]).merge(words.filter(lambda r: r[1] % 3 > 0)).sink(
        "out", key=lambda r: r[1]
    )
    records = fails.source("docs").map(lambda r: (r[0], 100 // (r[1] % 7)))
    records.reduce(key=lambda r: r[0], initial=int, combine=lambda n, r: n + 10 // (r[1] - 33)).sink("out")
    placed = fs.Graph("placed")
    placed.source("docs").balance(lambda key: -len(key) << 28).group(
        2, key=lambda r: r[0][:2] * (1 + r[1] % 3)
    ).sink("out")
    return {"vectors": vectors, "windows": windows, "fails": fails, "placed": placed, **ready_made()}


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Posting:
    word: str
    number: int
    note: Any


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Change:
    number: Any
    word: str


def posting(record: tuple[str, int]) -> Posting:
    return Posting(record[0], record[1], (0.5, "no number", (1, "two"))[record[1] % 3])


def ready_made() -> dict[str, fs.Graph]:
    """Lists whose deltas get long, sums that change their type, and sums that cannot be made."""
    lists, sums, impossible = fs.Graph("lists"), fs.Graph("sums"), fs.Graph("impossible")
    change, word = fs.record(Change, "word", number=fs.size), fs.field("word")
    lists.source("docs").map(posting).reduce(key=word, combine=fs.append("number", "note"), emit=change).sink(
        "out", key=word
    )
    sums.source("docs").map(posting).reduce(key=word, combine=fs.total("number")).sink("out")
    emit = fs.record(Change, "word", number=fs.state)
    impossible.source("docs").map(posting).reduce(key=word, combine=fs.total("note"), emit=emit).sink(
        "out", key=lambda c: c.word
    )
    expressions, number = fs.Graph("expressions"), fs.field("number")
    parted = fs.record(Change, number=fs.state, word=fs.field("word").str.upper() + "!")
    numbers = expressions.source("docs").map(posting).filter(number % 7 != 3)
    numbers.reduce(key=number // 10, combine=fs.total("number"), emit=parted).sink("out", key="word")
    return {
        "lists": lists,
        "sums": sums,
        "impossible": impossible,
        "expressions": expressions,
        "rows": over_rows(),
    }


def over_rows() -> fs.Graph:
    """Functions of encoded items: behind a ready-made fold, some of which fail."""
    graph, number = fs.Graph("rows"), fs.field("number")
    change = fs.record(Change, "word", number=fs.state)
    changes = (
        graph.source("docs")
        .map(posting)
        .reduce(key=lambda p: (p.word, p.number % 3), combine=fs.total("number"), emit=change)
    )
    some = changes.filter(number % 5 != 0)
    some.map(fs.record(Change, word=fs.field("word") + "?", number=7 // (number % 11))).sink(
        "out", key=lambda c: c.word
    )
    changes.flat_map(fs.field("word").str.split("a")).sink("parts", key=fs.item)
    return graph


def lived(graph: fs.Graph, parts: Parts, debug: bool) -> OneWorker:
    life, rng = OneWorker(graph, parts, debug), Random(7)
    for number in range(1500):
        record = (rng.choice("aaaabc") + str(rng.randrange(3)), number)
        life.records(number, [record])
        if number % 100 == 99:
            life.tell(messages.Announce(FENCE, Epoch(number // 100 + 1), []))
    return life


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("name", graphs())
def test_action_by_action(name: str, debug: bool) -> None:
    assert kernel is not None
    graph = graphs()[name]
    reference, other = lived(graph, REFERENCE, debug), lived(graph, native(kernel), debug)
    assert len(reference.rows) > 50
    assert len(reference.done) == len(other.done)
    for ours, theirs in zip(other.done, reference.done, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("name", ["vectors", "windows", "lists", "sums"])
def test_action_by_action_with_items_between_the_slices_of_chores(name: str) -> None:
    """What a chore has visited when an item comes decides where its key stands among those that changed, and
    so the order of rows."""
    assert kernel is not None
    lives = []
    for parts in (REFERENCE, native(kernel)):
        life, rng = OneWorker(graphs()[name], parts, False, slice_size=1, credit_runs=100_000), Random(3)
        for number in range(600):
            record = (rng.choice("abcdefghij") + str(rng.randrange(4)), number)
            more: list[events.Event] = [
                events.RecordsArrived(FENCE, FRONT, Partition(""), Offset(number), [record], 1)
            ]
            if number % 60 == 59:
                more.append(events.FromCoordinator(messages.Announce(FENCE, Epoch(number // 60 + 1), [])))
            life.turn(*more)
        lives.append(life)
    assert len(lives[0].rows) > 100
    assert lives[1].rows == lives[0].rows
    assert lives[1].done == lives[0].done


@pytest.mark.parametrize(("name", "vertex"), [("vectors", 1), ("lists", 2), ("sums", 2), ("impossible", 2)])
def test_what_was_snapshot_by_one_is_restored_by_the_other(name: str, vertex: int) -> None:
    assert kernel is not None
    graph = graphs()[name]
    lives = [lived(graph, parts, False) for parts in (REFERENCE, native(kernel))]
    # What both kinds can be asked for is no port's: only tests look at single keys.
    states: list[Any] = [life.worker.flow.states[vertex] for life in lives]
    cut = lives[0].worker.cuts.committed
    fresh: list[Any] = [
        OneWorker(graph, parts, False).worker.flow.states[vertex] for parts in (native(kernel), REFERENCE)
    ]
    for state, rows in zip(fresh, [0, 1], strict=True):
        state.load(chains_of(lives[rows].rows))
        for key in states[0].buckets:
            assert state.state_at(key, cut) == states[0].state_at(key, cut) == states[1].state_at(key, cut)


def numbered(numbers: Iterator[int], window: Any) -> int:
    return next(numbers)


def test_a_function_that_is_not_deterministic_is_named_as_the_cause() -> None:
    """Its tombstone does not find its item: both kinds of parts say the same."""
    assert kernel is not None
    told = []
    for parts in (REFERENCE, native(kernel)):
        graph, count = fs.Graph("clock"), iter(range(1_000))
        made = graph.source("docs").group(2, key=lambda r: 0).map(partial(numbered, count))
        made.group(2, key=lambda n: 0).sink("out")
        life = OneWorker(graph, parts, debug=False)
        flow: Any = life.worker.flow
        flow.run([(meta_of(Time(5000 * 4096), 0), Time(5000 * 4096), 0, "b", False)])
        with pytest.raises(UserError, match="gave two results for one input") as raised:
            flow.run([(meta_of(Time(4000 * 4096), 0), Time(4000 * 4096), 0, "a", False)])
        told.append(str(raised.value))
    assert told[0] == told[1]


@pytest.mark.parametrize("function", [Events(None), progress_of])
def test_a_function_that_looks_for_a_few_classes_makes_of_others_what_the_kernel_is_told(
    function: Any,
) -> None:
    itself, classes = of_others(function) or (False, [])
    assert classes
    for item in ("record", 5, Dated("record", 1)):
        assert type(item) not in classes
        assert function(item) == ((item,) if itself else ())


def test_expressions_ask_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, number, asked = fs.Graph("asked"), fs.field("number"), list[Any]()

    changes = (
        graph.source("docs")
        .map(posting)
        .filter(number % 7 != 3)
        .reduce(key=number // 10, combine=fs.count(), emit=fs.record(Change, "word", number=fs.state))
    )
    changes.filter(number != 4).map(fs.record(Change, "number", word=fs.field("word") + "!")).sink(
        "out", key="word"
    )
    assert kernel is not None
    expected = lived(graph, REFERENCE, False)
    for cls in (expression.Binary, expression.Equality, expression.Field, ready.Record):
        monkeypatch.setattr(cls, "__call__", lambda self, *given: asked.append(self))
    other = lived(graph, native(kernel), False)
    assert asked == [] and other.done == expected.done and len(other.done) > 50


@fs.event
class Step:
    at: int
    here: str
    there: str


def test_an_item_that_is_on_both_sides_of_a_join_has_the_key_of_each() -> None:
    graph = fs.Graph("routes")
    steps = graph.source("docs", Step, at="at", unit="s")
    on = (lambda step: step.there.lower(), lambda step: step.here.lower())
    steps.join(steps, on=on, within=("0s", "9s")).sink("out", key=lambda pair: pair[0].here)
    assert kernel is not None
    lives = [OneWorker(graph, parts, False) for parts in (REFERENCE, native(kernel))]
    rng, rows = Random(3), []
    for number in range(200):
        rows.append(Step(number, rng.choice("ABCD"), rng.choice("abcd")))
        for life in lives:
            life.records(number, [rows[-1]])
    reference, other = lives
    pairs = [str(action) for action in reference.done if "Deliver" in type(action).__name__]
    assert len(pairs) > 50 and other.done == reference.done
