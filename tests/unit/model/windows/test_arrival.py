"""Event time that is when records arrive: it is in their place in the order, so items need not say it, and
nothing is late."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.core.worker.silence import Passing
from flamestream.model.duration import Micros
from flamestream.model.entrances import Entrances
from flamestream.model.errors import GraphError, UserError
from flamestream.model.event_time import END_OF_TIME, ENDED, PASSED, Progress, Stamped, Undecoded
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.time import FrontId, Time, Timestamp, next_time, time_of
from flamestream.reference import ERRORS, Run, interpret

BEGIN = datetime(2026, 11, 24, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def number_of(text: str) -> int:
    return int(text)


def clicks() -> Any:
    return fs.Graph("arrivals").source("clicks", str, clock="arrival")


def stamped(seconds: float, front: int = 0) -> Time:
    return time_of(Timestamp((after(seconds) - EPOCH) // MICROSECOND), FrontId(front))


def test_windows_are_of_when_records_arrive_and_functions_see_the_records() -> None:
    stream = clicks()
    stream.map(str.upper).window(fs.tumbling("10s"), key=lambda word: word[0]).collect().sink("out")
    arrivals = [
        fs.Arrived("a", after(1)),
        fs.Arrived("ab", after(9.999999)),
        fs.Arrived("ac", after(10)),
        fs.Arrived("b", after(31)),
    ]
    assert stream.graph.run(clicks=arrivals)["out"] == [
        fs.Windowed("A", after(0), after(10), ("A", "AB")),
        fs.Windowed("A", after(10), after(20), ("AC",)),
        fs.Windowed("B", after(30), after(40), ("B",)),
    ]


def test_a_result_behind_state_has_the_time_of_the_record_that_led_to_it() -> None:
    stream = clicks()
    counted = stream.reduce(
        key=lambda word: word, combine=fs.count(), emit=lambda number, word: (word, number)
    )
    counted.window(fs.tumbling("10s"), key=lambda pair: pair[0]).collect().sink("out")
    found = stream.graph.run(
        clicks=[fs.Arrived("a", after(1)), fs.Arrived("a", after(2)), fs.Arrived("a", after(12))]
    )["out"]
    assert [(window.start, window.value) for window in found] == [
        (after(0), (("a", 1), ("a", 2))),
        (after(10), (("a", 3),)),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 40_000_000), st.sampled_from("abc")), max_size=30), st.integers(1, 3)
)
def test_counts_are_those_of_a_plain_loop_and_nothing_is_late(
    arrivals: list[tuple[int, str]], fronts: int
) -> None:
    graph = fs.Graph("arrivals", shards=2)
    windows = graph.source("clicks", clock="arrival").window(fs.tumbling("7s"), key=lambda word: word).count()
    windows.sink("out")
    windows.late.sink("late")
    names = dict.fromkeys(map(FrontId, range(fronts)), "clicks")
    last, runs, counts = Time(0), list[tuple[Time, list[Any]]](), dict[tuple[int, str], int]()
    for at, word in sorted(arrivals):
        last = next_time(max(last, time_of(Timestamp(at), FrontId(0))), FrontId(at % fronts))
        runs.append((last, [word]))
        window = (last >> 12) // 7_000_000, word
        counts[window] = counts.get(window, 0) + 1
    ends = [(next_time(last, FrontId(front)), [ENDED]) for front in range(fronts)]
    found = interpret(graph, [*runs, *ends], fronts=names)
    made = {
        ((window.start - EPOCH) // timedelta(seconds=7), window.key): window.value
        for _, window in found["out"]
    }
    assert (made, found["late"], found[ERRORS]) == (counts, [], [])


def test_time_that_passes_without_records_closes_windows() -> None:
    stream = clicks()
    stream.window(fs.tumbling("10s"), key=lambda word: word).count().sink("out")
    begun: list[Run] = [(stamped(1), ["a"]), (stamped(9.9), [PASSED])]
    assert interpret(stream.graph, begun)["out"] == []
    assert [
        window.end for _, window in interpret(stream.graph, [*begun, (stamped(10), [PASSED])])["out"]
    ] == [after(10)]


def test_every_front_of_a_source_is_waited_for() -> None:
    stream = clicks()
    stream.window(fs.tumbling("10s"), key=lambda word: word).count().sink("out")
    runs: list[Run] = [(stamped(1), ["a"]), (stamped(12), [PASSED])]
    names = dict.fromkeys((FrontId(0), FrontId(1)), "clicks")
    assert interpret(stream.graph, runs, fronts=names)["out"] == []
    assert len(interpret(stream.graph, [*runs, (stamped(11, 1), [PASSED])], fronts=names)["out"]) == 1


def test_joins_and_programs_know_it() -> None:
    graph = fs.Graph("pairs")
    left, right = (graph.source(name, str, clock="arrival") for name in ("left", "right"))
    left.join(right, on=lambda word: word[0], within=("-2s", "2s"), how="left").sink("pairs")
    left.process(key=lambda word: word[0], on_item=lambda _, word, now: (word, [now.time.isoformat()])).sink(
        "times"
    )
    left.dedup(lambda word: word[0], within="3s").sink("first")
    arrivals = [fs.Arrived("a1", after(1)), fs.Arrived("a2", after(3)), fs.Arrived("a3", after(9))]
    found = graph.run(left=arrivals, right=[fs.Arrived("a", after(4))])
    assert found["pairs"] == [("a2", "a"), ("a1", None), ("a3", None)]
    assert found["times"] == [after(at).isoformat() for at in (1, 3, 9)]
    assert found["first"] == ["a1", "a3"]


def test_windows_over_windows_lose_nothing() -> None:
    stream = clicks()
    windows = stream.window(fs.tumbling("1s"), key=lambda word: word).count()
    windows.window(fs.tumbling("10s"), key=lambda window: window.key).total("value").sink("out")
    found = stream.graph.run(clicks=[fs.Arrived("a", after(at / 10)) for at in range(95)])["out"]
    assert [window.value for window in found] == [95]


def test_equal_arrivals_keep_their_order_and_records_without_one_come_before() -> None:
    stream = clicks()
    stream.window(fs.tumbling("10s"), key=len).collect().sink("out")
    found = stream.graph.run(clicks=[fs.Arrived("b", after(1)), fs.Arrived("a", after(1)), "c", "d"])["out"]
    assert [(window.start.year, window.value) for window in found] == [(1970, ("c", "d")), (2026, ("b", "a"))]


def test_the_first_record_of_a_run_tells_its_time_whatever_can_be_read() -> None:
    graph = fs.Graph("arrivals")
    graph.source("clicks", number_of, clock="arrival")
    bad = ErrorValue("f", "E", "bad")
    entering = Entrances(graph, {FrontId(0): "clicks"}).entering
    second = 1_000_000
    told = Progress("clicks", 0, "", 1, (7 * second,))
    run = time_of(Timestamp(7 * second + 3), FrontId(0))
    assert entering(run, "p", [bad, "x", "2"]) == [bad, Stamped(Undecoded("x"), told), 2]
    assert entering(run, "p", [PASSED]) == [Stamped(PASSED, told)]
    (ended,) = entering(run, "p", [ENDED])
    assert isinstance(ended, Stamped) and ended.progress.times == (END_OF_TIME,)


def test_each_step_of_the_clock_is_told_once() -> None:
    passing = Passing(Micros(10))
    passing.told(time_of(Timestamp(25), FrontId(0)))
    assert (passing.due(Timestamp(29)), passing.next, passing.due(Timestamp(30))) == (False, 30, True)
    passing.told(time_of(Timestamp(31), FrontId(0)))
    assert not passing.due(Timestamp(39))
    assert not passing.due(Timestamp(1))  # a clock that was set back waits until it is there again


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clock": "arrivals"}, "clock='arrivals' is unknown: it is \"arrival\", or left out"),
        ({"clock": "arrival", "at": "user"}, "either at= or clock='arrival', not both"),
        ({"clock": "arrival", "late": "1s"}, "mean nothing without at"),
        ({"clock": "arrival", "idle": "1s"}, "mean nothing without at"),
    ],
)
def test_what_means_nothing_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        fs.Graph("arrivals").source("clicks", **settings)


@pytest.mark.parametrize("at", [datetime(2026, 1, 1), datetime(1960, 1, 1, tzinfo=UTC), 5])  # noqa: DTZ001 (that is what is wrong with it)
def test_an_arrival_at_no_time_is_refused(at: Any) -> None:
    stream = clicks()
    stream.sink("out")
    with pytest.raises(UserError, match="Arrived"):
        stream.graph.run(clicks=[fs.Arrived("a", at)])


def test_an_arrival_may_be_said_in_any_zone() -> None:
    stream = clicks()
    stream.window(fs.tumbling("10s"), key=len).count().sink("out")
    berlin = after(3).astimezone(timezone(timedelta(hours=1)))
    assert stream.graph.run(clicks=[fs.Arrived("a", berlin)])["out"] == [
        fs.Windowed(1, after(0), after(10), 1)
    ]


def test_streams_whose_times_are_found_in_two_ways_have_none_together() -> None:
    graph = fs.Graph("mixed")
    by_arrival, by_field, untimed = (
        graph.source("a", clock="arrival"),
        graph.source("b", at="at"),
        graph.source("c"),
    )
    for one, other in [
        (by_arrival, by_field),
        (by_field, by_arrival),
        (by_arrival, untimed),
        (by_field, untimed),
        (untimed, by_field),
    ]:
        with pytest.raises(GraphError, match="the same of all sources that are merged"):
            one.merge(other).window(fs.tumbling("1s"), key="user").count()
